#include "tests/testing/pretend_device/work.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <ATen/Context.h>

#include "tests/testing/pretend_device/memory.h"

namespace moonring::pretend {
namespace {

// Returns "mm" for "aten::mm".
std::string_view Short(const std::string& name) {
  return std::string_view(name).substr(name.find("::") + 2);
}

template <size_t n>
bool IsOneOf(std::string_view name, const std::array<std::string_view, n>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string Dtype(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kBFloat16:
    case at::kHalf:
      return "bf16";
    case at::kFloat:
      return "fp32";
    case at::kDouble:
      return "fp64";
    default:
      return c10::toString(tensor.scalar_type());
  }
}

// Gives a call's arguments by name.
class CallArguments {
 public:
  CallArguments(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& given)
      : schema_(schema), given_(given) {}

  const c10::IValue* Find(const std::string& name) const {
    const std::optional<int> at = schema_.argumentIndexWithName(name);
    if (!at.has_value() || given_[static_cast<size_t>(*at)].isNone()) return nullptr;
    return &given_[static_cast<size_t>(*at)];
  }
  at::Tensor Tensor(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      const c10::IValue* const found = Find(name);
      if (found != nullptr && found->isTensor()) return found->toTensor();
    }
    return {};
  }
  int64_t Int(const std::string& name, int64_t otherwise) const {
    const c10::IValue* const found = Find(name);
    return found != nullptr && found->isInt() ? found->toInt() : otherwise;
  }
  bool Is(const std::string& name) const {
    const c10::IValue* const found = Find(name);
    return found != nullptr && found->isBool() && found->toBool();
  }

 private:
  const c10::FunctionSchema& schema_;
  const std::vector<c10::IValue>& given_;
};

template <typename Do>
void ForEachTensor(const c10::IValue& value, const Do& act) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) act(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& each : value.toTensorVector()) act(each);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& each : value.toOptionalTensorVector())
      if (each.has_value()) act(*each);
  }
}

int64_t BytesOf(const c10::IValue& value) {
  int64_t bytes = 0;
  ForEachTensor(value, [&](const at::Tensor& each) { bytes += TouchedBytes(each); });
  return bytes;
}

std::string ShapeOf(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return tensor.defined() && tensor.dim() > 0 ? c10::str(Dtype(tensor), tensor.sizes()) : "";
  }
  int64_t count = 0, numel = 0;
  ForEachTensor(value, [&](const at::Tensor& each) {
    ++count;
    numel += each.numel();
  });
  return count == 0 ? "" : c10::str(count, " tensors of ", numel);
}

// --- operations --------------------------------------------------------------

void AddProduct(const CallArguments& call, Work& work) {
  at::Tensor a = call.Tensor({"mat1", "batch1", "input", "mat", "self"});
  const at::Tensor matrix = call.Tensor({"mat2", "batch2"}), weight = call.Tensor({"weight"});
  if (!a.defined()) return;
  double columns = 1;  // of addmv, mv, dot
  if (matrix.defined()) columns = static_cast<double>(matrix.size(-1));
  if (!matrix.defined() && weight.defined()) columns = static_cast<double>(weight.size(0));
  work.flops = 2.0 * static_cast<double>(a.numel()) * columns;
  const bool tf32 = a.scalar_type() == at::kFloat && at::globalContext().allowTF32CuBLAS();
  work.by = "product " + (tf32 ? "tf32" : Dtype(a));
}

// Reads the offsets of packed sequences from device memory.
std::vector<int64_t> Offsets(const at::Tensor& offsets) {
  const auto* const at = static_cast<const int32_t*>(
      offsets.is_cuda() ? ForKernels(offsets.storage().mutable_data()) : offsets.data_ptr());
  return {at + offsets.storage_offset(), at + offsets.storage_offset() + offsets.numel()};
}

void AddAttention(std::string_view name, const CallArguments& call, Work& work) {
  const at::Tensor q = call.Tensor({"query", "q"}), k = call.Tensor({"key", "k"});
  if (!q.defined() || !k.defined()) return;
  const bool backward = name.find("backward") != std::string_view::npos;
  const bool heads_first = name.find("cudnn") != std::string_view::npos ||
                           name.find("scaled_dot_product") != std::string_view::npos;
  std::optional<int64_t> left, right;
  const int64_t mask = call.Int("custom_mask_type", 0);
  if (call.Is("is_causal") || call.Is("causal") || mask != 0) right = 0;
  if (const int64_t given = call.Int("window_size_left", -1); given >= 0) left = given;
  if (const int64_t given = call.Int("window_size_right", -1); given >= 0) right = given;
  if (const int64_t given = call.Int("window_size", 0); given > 0) left = given - 1;
  const at::Tensor offsets_q = call.Tensor({"cum_seq_q", "cu_seqlens_q"}),
                   offsets_k = call.Tensor({"cum_seq_k", "cu_seqlens_k"});
  double pairs = 0;
  const bool packed = offsets_q.defined() && offsets_k.defined();
  const int64_t heads = q.size(!packed && heads_first ? -3 : -2);
  if (packed) {
    const std::vector<int64_t> of_q = Offsets(offsets_q), of_k = Offsets(offsets_k);
    for (size_t s = 1; s < std::min(of_q.size(), of_k.size()); ++s) {
      pairs +=
          static_cast<double>(SeenPairs(of_q[s] - of_q[s - 1], of_k[s] - of_k[s - 1], left, right));
    }
  } else {
    const int64_t rows = heads_first ? -2 : -3;
    pairs = static_cast<double>(q.size(0) * SeenPairs(q.size(rows), k.size(rows), left, right));
  }
  work.flops = (backward ? 10.0 : 4.0) * pairs * static_cast<double>(heads * q.size(-1));
  work.by = std::string("attention ") + (backward ? "backward " : "forward ") + Dtype(q);
}

// Adds the products of `a` with the states before each chunk: two products of [64, K] and [K, V]
// matrices.
void AddScan(const CallArguments& call, Work& work) {
  const at::Tensor a = call.Tensor({"a"}), states = call.Tensor({"states"});
  work.flops = 4.0 * static_cast<double>(a.numel()) * static_cast<double>(states.size(2));
  work.by = "product " + (call.Is("tf32") ? "tf32" : Dtype(a));
}

bool IsAttention(std::string_view name) { return name.find("attention") != std::string_view::npos; }

// --- bytes -------------------------------------------------------------------

// Operators that read selected elements of an argument: as many as the result has.
constexpr std::array<std::string_view, 5> kGathers = {"embedding", "index_select", "index",
                                                      "gather", "take"};
// Operators that add to or write selected elements of an argument: as many as the source has.
constexpr std::array<std::string_view, 7> kScatters = {"index_add",  "index_put", "_index_put_impl",
                                                       "index_copy", "scatter",   "scatter_add",
                                                       "index_fill"};
// Operators that overwrite their first argument without reading it.
constexpr std::array<std::string_view, 7> kOverwrites = {
    "zero_", "fill_", "copy_", "uniform_", "normal_", "random_", "bernoulli_"};

bool IsOutput(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool SameMemory(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.storage().is_alias_of(b.storage()) &&
         a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes();
}

// Returns whether a product reads its addend (the first argument): not if beta is 0.
bool ReadsSum(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& given) {
  const std::optional<int> beta = schema.argumentIndexWithName("beta");
  if (!beta.has_value()) return true;
  const c10::IValue& value = given[static_cast<size_t>(*beta)];  // a tensor of the delta rule's
  return !value.isScalar() || value.toScalar().toDouble() != 0.0;
}

// Returns how many rows of a stream a call can select by its argument token_of_slot; nullopt: all.
std::optional<int64_t> NamedRows(const c10::FunctionSchema& schema,
                                 const std::vector<c10::IValue>& given) {
  for (size_t i = 0; i < given.size(); ++i)
    if (schema.arguments()[i].name() == "token_of_slot") return given[i].toTensor().numel();
  return std::nullopt;
}

int64_t BytesOfRows(const c10::IValue& value, std::optional<int64_t> rows) {
  const int64_t bytes = BytesOf(value);
  if (bytes == 0 || !rows.has_value() || !value.isTensor() || value.toTensor().dim() == 0)
    return bytes;
  const int64_t all = value.toTensor().size(0);
  return bytes / all * std::min(all, *rows);
}

void AddBytes(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& given,
              const std::vector<c10::IValue>& results, Work& work) {
  const std::string_view name = Short(schema.name());
  const bool scatters = IsOneOf(name.substr(0, name.find_last_not_of('_') + 1), kScatters);
  const at::Tensor self =
      !given.empty() && given[0].isTensor() ? given[0].toTensor() : at::Tensor();
  const std::optional<int64_t> rows = NamedRows(schema, given);
  int64_t others = 0;  // of all arguments but the first, and but outputs
  bool is_in_place = false;
  for (size_t i = 0; i < given.size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const int64_t bytes = BytesOfRows(given[i], rows);
    const bool overwrites = argument.is_out() || IsOneOf(name, kOverwrites);
    if (IsOutput(argument)) {
      work.written += bytes;
      is_in_place |= i == 0 || (given[i].isTensor() && SameMemory(given[i].toTensor(), self));
    }
    if (IsOutput(argument) && overwrites) continue;
    if (i == 0 && !ReadsSum(schema, given)) continue;
    work.read += bytes;
    if (i > 0) others += bytes;
  }
  for (size_t i = 0; i < results.size(); ++i)
    if (schema.returns()[i].alias_info() == nullptr) work.written += BytesOf(results[i]);
  if (given.empty()) return;
  const int64_t first = BytesOf(given[0]);
  if (IsOneOf(name, kGathers)) work.read -= first - std::min(first, work.written);
  if (scatters && is_in_place) {
    const int64_t unused = first - std::min(first, others);
    work.read -= unused;
    work.written -= unused;
  }
}

}  // namespace

bool IsProduct(const std::string& name) {
  static constexpr std::array<std::string_view, 11> kProducts = {
      "mm",  "addmm",  "bmm",        "baddbmm", "addmv", "mv", "addbmm", "_addmm_activation",
      "dot", "linear", "_grouped_mm"};
  return IsOneOf(Short(name), kProducts);
}

int64_t SeenPairs(int64_t queries, int64_t keys, std::optional<int64_t> left,
                  std::optional<int64_t> right) {
  if (!left.has_value() && !right.has_value()) return queries * keys;
  int64_t pairs = 0;
  for (int64_t i = 0; i < queries; ++i) {
    const int64_t at = i + keys - queries;
    const int64_t first = left.has_value() ? std::max<int64_t>(0, at - *left) : 0;
    const int64_t last = right.has_value() ? std::min(keys - 1, at + *right) : keys - 1;
    pairs += std::max<int64_t>(0, last - first + 1);
  }
  return pairs;
}

int64_t TouchedBytes(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() == 0) return 0;
  int64_t elements = 1;
  for (int64_t d = 0; d < tensor.dim(); ++d)
    if (tensor.stride(d) != 0) elements *= tensor.size(d);
  return elements * static_cast<int64_t>(tensor.element_size());
}

Work WorkOfCopy(const at::Tensor& to, const at::Tensor& from) {
  Work work{.read = TouchedBytes(from), .written = TouchedBytes(to)};
  if (to.is_cuda() != from.is_cuda()) work.by = "link";
  work.shapes = ShapeOf(to) + " of " + ShapeOf(from);
  return work;
}

Work WorkOf(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& given,
            const std::vector<c10::IValue>& results) {
  Work work;
  AddBytes(schema, given, results, work);
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string shape = ShapeOf(given[i]);
    if (!shape.empty()) work.shapes += (work.shapes.empty() ? "" : " ") + shape;
  }
  const CallArguments call(schema, given);
  if (IsProduct(schema.name()) || (call.Find("mat1") != nullptr && call.Find("mat2") != nullptr)) {
    AddProduct(call, work);
  } else if (IsAttention(Short(schema.name()))) {
    AddAttention(Short(schema.name()), call, work);
  } else if (schema.name() == "moonring::delta_scan") {
    AddScan(call, work);
  }
  return work;
}

}  // namespace moonring::pretend
