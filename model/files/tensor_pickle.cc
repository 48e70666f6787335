#include "model/files/tensor_pickle.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "model/files/json_text.h"
#include "model/files/pickle_graph.h"

namespace moonring::model {
namespace {

using Kind = PickleValue::Kind;

constexpr absl::string_view kOrderedDict = "collections.OrderedDict", kSize = "torch.Size",
                            kTensor = "torch._utils._rebuild_tensor_v2",
                            kTensorWithDtype = "torch._utils._rebuild_tensor_v3",
                            kParameter = "torch._utils._rebuild_parameter",
                            kParameterWithState = "torch._utils._rebuild_parameter_with_state",
                            kUntypedStorage = "torch.storage.UntypedStorage";

struct PickledDtype {
  absl::string_view name;
  at::ScalarType dtype;
};
constexpr PickledDtype kStorages[] = {
    {"torch.FloatStorage", at::kFloat},
    {"torch.BFloat16Storage", at::kBFloat16},
    {"torch.HalfStorage", at::kHalf},
    {"torch.DoubleStorage", at::kDouble},
    {"torch.LongStorage", at::kLong},
    {"torch.IntStorage", at::kInt},
    {"torch.ShortStorage", at::kShort},
    {"torch.CharStorage", at::kChar},
    {"torch.ByteStorage", at::kByte},
    {"torch.BoolStorage", at::kBool},
    {"torch.ComplexFloatStorage", at::kComplexFloat},
    {"torch.ComplexDoubleStorage", at::kComplexDouble},
};
// The dtypes that have no storage class in torch: their tensors have an UntypedStorage.
constexpr PickledDtype kUntypedDtypes[] = {
    {"torch.float8_e4m3fn", at::kFloat8_e4m3fn},
    {"torch.float8_e5m2", at::kFloat8_e5m2},
    {"torch.float8_e4m3fnuz", at::kFloat8_e4m3fnuz},
    {"torch.float8_e5m2fnuz", at::kFloat8_e5m2fnuz},
    {"torch.uint16", at::kUInt16},
    {"torch.uint32", at::kUInt32},
    {"torch.uint64", at::kUInt64},
};

std::vector<absl::string_view> AllowedNames() {
  std::vector<absl::string_view> names = {kOrderedDict,     kSize,      kTensor,
                                          kTensorWithDtype, kParameter, kParameterWithState,
                                          kUntypedStorage};
  for (const PickledDtype& row : kStorages) names.push_back(row.name);
  for (const PickledDtype& row : kUntypedDtypes) names.push_back(row.name);
  return names;
}

std::optional<at::ScalarType> FindDtype(absl::Span<const PickledDtype> table,
                                        const PickleValue& value) {
  for (const PickledDtype& row : table) {
    if (value.kind == Kind::kGlobal && value.text == row.name) return row.dtype;
  }
  return std::nullopt;
}

// Reads the state dict in one pickle graph. Each nesting level of a state dict has its own
// function, so no function is recursive.
class StateDictReader {
 public:
  StateDictReader(const PickleGraph& graph, const std::string& where)
      : graph_(graph), where_(where) {}

  absl::StatusOr<std::map<std::string, PickledTensor>> Read() const;

 private:
  template <typename... Pieces>
  absl::Status Wrong(const Pieces&... pieces) const {
    return absl::InvalidArgumentError(absl::StrCat(pieces...));
  }
  const std::vector<PickleRef>& Arguments(const PickleValue& call) const {
    return graph_[call.arguments].items;
  }
  bool IsDict(const PickleValue& value) const {
    return value.kind == Kind::kDict || graph_.IsCallOf(value, kOrderedDict);
  }

  bool IsTensor(const PickleValue& value) const {
    return graph_.IsCallOf(value, kTensor) || graph_.IsCallOf(value, kTensorWithDtype);
  }

  bool HasTensor(const PickleValue& value) const;
  const PickleValue& WithoutParameter(const PickleValue& value) const;
  absl::StatusOr<PickledTensor> ReadTensor(const PickleValue& call) const;
  absl::Status ReadStorage(const PickleValue& storage, const PickleValue* dtype,
                           PickledTensor* tensor) const;
  absl::StatusOr<std::vector<int64_t>> ReadSizes(const PickleValue& value,
                                                 absl::string_view what) const;
  absl::Status NotATensor(const PickleValue& dict, absl::string_view name,
                          const PickleValue& value) const;

  const PickleGraph& graph_;
  const std::string& where_;
};

absl::StatusOr<std::map<std::string, PickledTensor>> StateDictReader::Read() const {
  const PickleValue& dict = graph_[graph_.root()];
  if (!IsDict(dict))
    return Wrong(where_, ": it contains ", graph_.Described(dict),
                 ": expected a dictionary from names to tensors");
  if (dict.kind == Kind::kCall && !Arguments(dict).empty())
    return Wrong(where_,
                 ": an OrderedDict is made from values: expected an empty one, filled later");
  std::map<std::string, PickledTensor> tensors;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& key = graph_[dict.items[i]];
    if (key.kind != Kind::kText)
      return Wrong(where_, ": a key is ", graph_.Described(key), ": expected names of tensors");
    const PickleValue& value = WithoutParameter(graph_[dict.items[i + 1]]);
    if (!IsTensor(value)) return NotATensor(dict, key.text, value);
    ASSIGN_OR_RETURN(tensors[std::string(key.text)], ReadTensor(value), where_, ": ",
                     Shown(key.text));
  }
  return tensors;
}

// Returns the tensor in a torch Parameter; returns any other value unchanged.
const PickleValue& StateDictReader::WithoutParameter(const PickleValue& value) const {
  const bool parameter =
      graph_.IsCallOf(value, kParameter) || graph_.IsCallOf(value, kParameterWithState);
  return parameter && !Arguments(value).empty() ? graph_[Arguments(value)[0]] : value;
}

// Reads a call of _rebuild_tensor_v2 or _v3, whose arguments are (storage, offset, shape, strides,
// requires_grad, hooks[, dtype][, metadata]).
absl::StatusOr<PickledTensor> StateDictReader::ReadTensor(const PickleValue& call) const {
  const bool with_dtype = graph_.IsCallOf(call, kTensorWithDtype);
  const std::vector<PickleRef>& arguments = Arguments(call);
  const size_t least = with_dtype ? 7 : 6;
  if (arguments.size() < least || arguments.size() > least + 1)
    return Wrong("a tensor is made from ", arguments.size(), " values, expected ", least);
  const auto argument = [&](size_t i) -> const PickleValue& { return graph_[arguments[i]]; };
  // Metadata mean that the tensor is lazily negated or conjugated; a state means that it is of a
  // tensor subclass. Both are refused.
  if (call.has_state || (arguments.size() > least && argument(least).kind != Kind::kNone))
    return Wrong("it is more than a plain tensor: refused");
  PickledTensor tensor;
  RETURN_IF_ERROR(ReadStorage(argument(0), with_dtype ? &argument(6) : nullptr, &tensor));
  if (argument(1).kind != Kind::kInt || argument(1).number < 0)
    return Wrong("its offset is ", graph_.Described(argument(1)), ", expected a count");
  tensor.offset = argument(1).number;
  ASSIGN_OR_RETURN(tensor.shape, ReadSizes(argument(2), "shape"));
  ASSIGN_OR_RETURN(tensor.strides, ReadSizes(argument(3), "strides"));
  if (tensor.shape.size() != tensor.strides.size())
    return Wrong("it has ", tensor.shape.size(), " sizes and ", tensor.strides.size(), " strides");
  return tensor;
}

// Reads the description of a storage, ('storage', class, number, device, size). The size counts
// elements, or bytes for an UntypedStorage.
absl::Status StateDictReader::ReadStorage(const PickleValue& storage, const PickleValue* dtype,
                                          PickledTensor* tensor) const {
  if (storage.kind != Kind::kPersistent) return Wrong("its storage is ", graph_.Described(storage));
  const std::vector<PickleRef>& items = graph_[storage.arguments].items;
  const absl::Status wrong =
      Wrong("its storage is not described by ('storage', class, number, device, size)");
  if (graph_[storage.arguments].kind != Kind::kTuple || items.size() != 5) return wrong;
  const PickleValue &word = graph_[items[0]], &number = graph_[items[2]], &size = graph_[items[4]];
  if (word.text != "storage" || number.kind != Kind::kText || size.kind != Kind::kInt ||
      size.number < 0)
    return wrong;
  const PickleValue& storage_class = graph_[items[1]];
  const bool untyped = storage_class.kind == Kind::kGlobal && storage_class.text == kUntypedStorage;
  const auto found = dtype != nullptr && untyped ? FindDtype(kUntypedDtypes, *dtype)
                                                 : FindDtype(kStorages, storage_class);
  if (!found.has_value() || (dtype != nullptr) != untyped) {
    return Wrong("its storage is ", graph_.Described(storage_class),
                 dtype == nullptr ? "" : absl::StrCat(" of ", graph_.Described(*dtype)),
                 ": not supported");
  }
  tensor->storage = std::string(number.text);
  tensor->dtype = *found;
  tensor->storage_size =
      untyped ? size.number / static_cast<int64_t>(c10::elementSize(*found)) : size.number;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> StateDictReader::ReadSizes(const PickleValue& value,
                                                                absl::string_view what) const {
  constexpr size_t kMostDims = 64;  // LibTorch's limit
  const bool wrapped = graph_.IsCallOf(value, kSize) && Arguments(value).size() == 1;
  const PickleValue& tuple = wrapped ? graph_[Arguments(value)[0]] : value;
  if (tuple.kind != Kind::kTuple || tuple.items.size() > kMostDims)
    return Wrong("its ", what, ": expected a tuple of at most ", kMostDims, " numbers");
  std::vector<int64_t> sizes;
  for (const PickleRef item : tuple.items) {
    if (graph_[item].kind != Kind::kInt || graph_[item].number < 0)
      return Wrong("its ", what, ": expected whole numbers, none negative");
    sizes.push_back(graph_[item].number);
  }
  return sizes;
}

bool StateDictReader::HasTensor(const PickleValue& value) const {
  if (!IsDict(value) || value.items.size() < 2) return false;
  return IsTensor(WithoutParameter(graph_[value.items[1]]));
}

// The error for a value of `dict` that is not a tensor. If another value is a dictionary of
// tensors, the message says that this is a checkpoint around a state dict.
absl::Status StateDictReader::NotATensor(const PickleValue& dict, absl::string_view name,
                                         const PickleValue& value) const {
  constexpr size_t kMostShown = 5;
  std::string found, inner;
  for (size_t i = 0; i < dict.items.size() && i < 2 * kMostShown; i += 2) {
    const std::string key = absl::StrCat("'", Shown(graph_[dict.items[i]].text, 40), "'");
    absl::StrAppend(&found, i == 0 ? "" : ", ", key);
    if (inner.empty() && HasTensor(graph_[dict.items[i + 1]])) inner = key;
  }
  if (dict.items.size() > 2 * kMostShown) absl::StrAppend(&found, ", ...");
  if (!inner.empty())
    return Wrong(where_, ": the tensors are not at the top but in ", inner, " (found ", found,
                 "): save that alone, as a model's state dict");
  return Wrong(where_, ": '", Shown(name, 40), "' is ", graph_.Described(value), " (found ", found,
               "): expected tensors alone, as in a model's state dict");
}

}  // namespace

absl::StatusOr<std::map<std::string, PickledTensor>> ReadTensorPickle(absl::string_view pickle,
                                                                      const std::string& where) {
  if (pickle.size() > kLargestPickle) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": it has ", pickle.size(),
                                                   " bytes, more than the ", kLargestPickle,
                                                   " that are read"));
  }
  const std::vector<absl::string_view> allowed = AllowedNames();
  ASSIGN_OR_RETURN(const PickleGraph graph, PickleGraph::Read(pickle, allowed, where));
  return StateDictReader(graph, where).Read();
}

}  // namespace moonring::model
