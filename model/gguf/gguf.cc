#include "model/gguf/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "ATen/ops/empty.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "model/files/json_text.h"
#include "model/files/weight_shape.h"
#include "model/gguf/gguf_types.h"

namespace moonring::model {
namespace {

static_assert(std::endian::native == std::endian::little);

// Reads the header sequentially; never reads past its end.
class Cursor {
 public:
  Cursor(absl::string_view bytes, const std::string& path)
      : all_(bytes), rest_(bytes), path_(path) {}

  uint64_t position() const { return all_.size() - rest_.size(); }
  uint64_t left() const { return rest_.size(); }

  template <typename... Pieces>
  absl::Status Lying(const Pieces&... pieces) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": not a valid GGUF file: at byte ",
                                                   position(), " of ", all_.size(), ": ",
                                                   pieces...));
  }

  absl::StatusOr<absl::string_view> Take(uint64_t bytes, absl::string_view what) {
    if (bytes > rest_.size())
      return Lying(what, " requires ", bytes, " bytes, ", rest_.size(), " are left (truncated?)");
    const absl::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  template <typename T>
  absl::StatusOr<T> Read(absl::string_view what) {
    ASSIGN_OR_RETURN(const absl::string_view taken, Take(sizeof(T), what));
    T value;
    std::memcpy(&value, taken.data(), sizeof(T));
    return value;
  }

  absl::StatusOr<absl::string_view> ReadString(absl::string_view what) {
    ASSIGN_OR_RETURN(const uint64_t length, Read<uint64_t>(what));
    return Take(length, what);
  }

  // Reads a count of items that take at least `least` bytes each, and checks that they fit in the
  // rest of the file.
  absl::StatusOr<uint64_t> ReadCount(uint64_t least, absl::string_view what) {
    ASSIGN_OR_RETURN(const uint64_t count, Read<uint64_t>(what));
    if (count > rest_.size() / least)
      return Lying(what, " is ", count, ", too many for the ", rest_.size(),
                   " bytes left (truncated?)");
    return count;
  }

 private:
  absl::string_view all_, rest_;
  const std::string& path_;
};

uint64_t SizeOf(GgufValueType type) {
  switch (type) {
    case GgufValueType::kUint8:
    case GgufValueType::kInt8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kUint16:
    case GgufValueType::kInt16:
      return 2;
    case GgufValueType::kUint32:
    case GgufValueType::kInt32:
    case GgufValueType::kFloat32:
      return 4;
    case GgufValueType::kUint64:
    case GgufValueType::kInt64:
    case GgufValueType::kFloat64:
      return 8;
    default:
      return 0;
  }
}

template <typename T>
T As(absl::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

GgufFile::Value ScalarOf(GgufValueType type, absl::string_view bytes) {
  using Value = GgufFile::Value;
  switch (type) {
    case GgufValueType::kUint8:
      return Value(int64_t{As<uint8_t>(bytes)});
    case GgufValueType::kInt8:
      return Value(int64_t{As<int8_t>(bytes)});
    case GgufValueType::kUint16:
      return Value(int64_t{As<uint16_t>(bytes)});
    case GgufValueType::kInt16:
      return Value(int64_t{As<int16_t>(bytes)});
    case GgufValueType::kUint32:
      return Value(int64_t{As<uint32_t>(bytes)});
    case GgufValueType::kInt32:
      return Value(int64_t{As<int32_t>(bytes)});
    case GgufValueType::kInt64:
      return Value(As<int64_t>(bytes));
    case GgufValueType::kUint64: {
      const uint64_t value = As<uint64_t>(bytes);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return Value(value);
      return Value(static_cast<int64_t>(value));
    }
    case GgufValueType::kFloat32:
      return Value(double{As<float>(bytes)});
    case GgufValueType::kFloat64:
      return Value(As<double>(bytes));
    default:
      return Value(bytes[0] != 0);
  }
}

absl::StatusOr<GgufFile::Value> ReadValue(Cursor& cursor, const std::string& key) {
  ASSIGN_OR_RETURN(const uint32_t number, cursor.Read<uint32_t>(key));
  if (number > static_cast<uint32_t>(GgufValueType::kFloat64))
    return cursor.Lying(key, " has the unknown value type ", number);
  const GgufValueType type = static_cast<GgufValueType>(number);
  if (type == GgufValueType::kString) {
    ASSIGN_OR_RETURN(const absl::string_view text, cursor.ReadString(key));
    return GgufFile::Value(text);
  }
  if (type != GgufValueType::kArray) {
    ASSIGN_OR_RETURN(const absl::string_view bytes, cursor.Take(SizeOf(type), key));
    return ScalarOf(type, bytes);
  }
  ASSIGN_OR_RETURN(const uint32_t element_number, cursor.Read<uint32_t>(key));
  const GgufValueType element = static_cast<GgufValueType>(element_number);
  if (element_number > static_cast<uint32_t>(GgufValueType::kFloat64) ||
      element == GgufValueType::kArray) {
    return cursor.Lying(key, " is an array of the unknown value type ", element_number);
  }
  const bool strings = element == GgufValueType::kString;
  ASSIGN_OR_RETURN(const uint64_t count, cursor.ReadCount(strings ? 8 : SizeOf(element),
                                                          absl::StrCat("the length of ", key)));
  if (!strings) {
    ASSIGN_OR_RETURN(const absl::string_view bytes, cursor.Take(count * SizeOf(element), key));
    return GgufFile::Value(GgufFile::Array{element, count, bytes});
  }
  Cursor walker = cursor;
  for (uint64_t i = 0; i < count; ++i) RETURN_IF_ERROR(walker.ReadString(key).status());
  ASSIGN_OR_RETURN(const absl::string_view bytes,
                   cursor.Take(walker.position() - cursor.position(), key));
  return GgufFile::Value(GgufFile::Array{element, count, bytes});
}

// Reads one tensor's description; `offset` is still relative to the start of the data.
absl::StatusOr<GgufFile::Tensor> ReadTensor(Cursor& cursor, const std::string& name) {
  GgufFile::Tensor tensor;
  ASSIGN_OR_RETURN(const uint32_t dims, cursor.Read<uint32_t>(name));
  if (dims < 1 || dims > 4) return cursor.Lying(name, " has ", dims, " dims, expected 1 to 4");
  uint64_t elements = 1;
  for (uint32_t i = 0; i < dims; ++i) {
    ASSIGN_OR_RETURN(const uint64_t size, cursor.Read<uint64_t>(name));
    if (size < 1 || __builtin_mul_overflow(elements, size, &elements) ||
        elements > (uint64_t{1} << 56))
      return cursor.Lying(name, " has an impossible size ", size);
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
  }
  ASSIGN_OR_RETURN(tensor.type, cursor.Read<uint32_t>(name));
  const GgufType* type = FindGgufType(tensor.type);
  if (type == nullptr) return cursor.Lying(name, " has the unknown type ", tensor.type);
  if (tensor.shape.back() % type->elements != 0)
    return cursor.Lying(name, " is ", type->name, " with rows of ", tensor.shape.back(),
                        ", not a multiple of ", type->elements);
  tensor.bytes =
      elements / static_cast<uint64_t>(type->elements) * static_cast<uint64_t>(type->bytes);
  ASSIGN_OR_RETURN(tensor.offset, cursor.Read<uint64_t>(name));
  return tensor;
}

absl::Status CheckPreamble(Cursor& cursor) {
  ASSIGN_OR_RETURN(const absl::string_view magic, cursor.Take(4, "the magic word"));
  if (magic != "GGUF") return cursor.Lying("it does not begin with GGUF");
  ASSIGN_OR_RETURN(const uint32_t version, cursor.Read<uint32_t>("the version"));
  if (version != 0 && version % 65536 == 0) return cursor.Lying("it is a big-endian file");
  if (version != 2 && version != 3)
    return cursor.Lying("version ", version, " is not supported (2 and 3 are)");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const GgufFile>> GgufFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> mapped, MappedFile::Open(path));
  return Of(std::move(mapped));
}

absl::StatusOr<std::shared_ptr<const GgufFile>> GgufFile::Of(
    std::shared_ptr<const MappedFile> mapped) {
  std::shared_ptr<GgufFile> file(new GgufFile);
  file->file_ = std::move(mapped);
  RETURN_IF_ERROR(file->ReadHeader());
  return file;
}

absl::Status GgufFile::ReadHeader() {
  Cursor cursor(file_->bytes(), path());
  RETURN_IF_ERROR(CheckPreamble(cursor));
  constexpr uint64_t kLeastTensor = 8 + 4 + 8 + 4 + 8, kLeastPair = 8 + 4 + 1;
  ASSIGN_OR_RETURN(const uint64_t tensors, cursor.ReadCount(kLeastTensor, "the number of tensors"));
  ASSIGN_OR_RETURN(const uint64_t pairs,
                   cursor.ReadCount(kLeastPair, "the number of metadata values"));
  for (uint64_t i = 0; i < pairs; ++i) {
    ASSIGN_OR_RETURN(const absl::string_view key, cursor.ReadString("a metadata key"));
    ASSIGN_OR_RETURN(const Value value, ReadValue(cursor, Shown(key)));
    if (!metadata_.emplace(std::string(key), value).second)
      return cursor.Lying("the key ", Shown(key), " is there twice");
  }
  RETURN_IF_ERROR(CheckWhole());
  for (uint64_t i = 0; i < tensors; ++i) {
    ASSIGN_OR_RETURN(const absl::string_view name, cursor.ReadString("a tensor's name"));
    ASSIGN_OR_RETURN(Tensor tensor, ReadTensor(cursor, Shown(name)));
    if (!tensors_.emplace(std::string(name), std::move(tensor)).second)
      return cursor.Lying("the tensor ", Shown(name), " is there twice");
  }
  int64_t alignment = 32;
  if (Has("general.alignment")) {
    ASSIGN_OR_RETURN(alignment, Int("general.alignment"));
  }
  if (alignment < 1 || alignment > (1 << 30) ||
      !std::has_single_bit(static_cast<uint64_t>(alignment)))
    return Wrong("general.alignment", "a power of 2");
  const uint64_t unit = static_cast<uint64_t>(alignment),
                 data_begin = (cursor.position() + unit - 1) / unit * unit;
  for (auto& [name, tensor] : tensors_) {
    const uint64_t room = file_->size() < data_begin ? 0 : file_->size() - data_begin;
    if (tensor.offset % unit != 0 || tensor.offset > room || tensor.bytes > room - tensor.offset) {
      return absl::InvalidArgumentError(absl::StrCat(
          path(), ": ", Shown(name), ": ", tensor.bytes, " bytes at offset ", tensor.offset,
          " of the data, which has ", room, " bytes in units of ", unit, " (truncated?)"));
    }
    tensor.offset += data_begin;
  }
  return absl::OkStatus();
}

// Refuses the files of a split model, "model-00001-of-00002.gguf" and so on: each file has some of
// the tensors, and only the first one has all the metadata.
absl::Status GgufFile::CheckWhole() const {
  if (!Has("split.count")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t parts, Int("split.count"));
  if (parts < 2) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(path(), ": one of ", parts,
                                               " parts of a model (split.count): merge them into "
                                               "one file first (llama-gguf-split --merge)"));
}

absl::StatusOr<const GgufFile::Value*> GgufFile::Find(const std::string& key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end())
    return absl::NotFoundError(absl::StrCat(path(), ": ", key, ": missing"));
  return &found->second;
}

absl::Status GgufFile::Wrong(const std::string& key, absl::string_view wanted) const {
  return absl::InvalidArgumentError(absl::StrCat(path(), ": ", key, ": expected ", wanted));
}

absl::StatusOr<int64_t> GgufFile::Int(const std::string& key) const {
  ASSIGN_OR_RETURN(const Value* value, Find(key));
  if (const int64_t* number = std::get_if<int64_t>(value)) return *number;
  return Wrong(key, "one whole number");
}

absl::StatusOr<double> GgufFile::Number(const std::string& key) const {
  ASSIGN_OR_RETURN(const Value* value, Find(key));
  if (const double* number = std::get_if<double>(value)) return *number;
  if (const int64_t* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  return Wrong(key, "one number");
}

absl::StatusOr<bool> GgufFile::Bool(const std::string& key) const {
  ASSIGN_OR_RETURN(const Value* value, Find(key));
  if (const bool* truth = std::get_if<bool>(value)) return *truth;
  return Wrong(key, "true or false");
}

absl::StatusOr<absl::string_view> GgufFile::String(const std::string& key) const {
  ASSIGN_OR_RETURN(const Value* value, Find(key));
  if (const absl::string_view* text = std::get_if<absl::string_view>(value)) return *text;
  return Wrong(key, "a string");
}

absl::StatusOr<std::vector<absl::string_view>> GgufFile::Strings(const std::string& key) const {
  ASSIGN_OR_RETURN(const Value* value, Find(key));
  const Array* array = std::get_if<Array>(value);
  if (array == nullptr || array->type != GgufValueType::kString)
    return Wrong(key, "an array of strings");
  std::vector<absl::string_view> texts;
  texts.reserve(array->count);
  Cursor cursor(array->bytes, path());
  for (uint64_t i = 0; i < array->count; ++i) {
    ASSIGN_OR_RETURN(const absl::string_view text, cursor.ReadString(key));
    texts.push_back(text);
  }
  return texts;
}

absl::StatusOr<std::vector<int64_t>> GgufFile::Ints(const std::string& key) const {
  ASSIGN_OR_RETURN(const Value* value, Find(key));
  const Array* array = std::get_if<Array>(value);
  std::vector<int64_t> numbers;
  if (array == nullptr || array->type == GgufValueType::kString)
    return Wrong(key, "an array of whole numbers");
  const uint64_t size = SizeOf(array->type);
  for (uint64_t i = 0; i < array->count; ++i) {
    const Value element = ScalarOf(array->type, array->bytes.substr(i * size, size));
    const int64_t* number = std::get_if<int64_t>(&element);
    if (number == nullptr) return Wrong(key, "an array of whole numbers");
    numbers.push_back(*number);
  }
  return numbers;
}

absl::StatusOr<std::vector<double>> GgufFile::Numbers(const std::string& key) const {
  ASSIGN_OR_RETURN(const Value* value, Find(key));
  const Array* array = std::get_if<Array>(value);
  std::vector<double> numbers;
  if (array == nullptr || array->type == GgufValueType::kString)
    return Wrong(key, "an array of numbers");
  const uint64_t size = SizeOf(array->type);
  for (uint64_t i = 0; i < array->count; ++i) {
    const Value element = ScalarOf(array->type, array->bytes.substr(i * size, size));
    if (const double* number = std::get_if<double>(&element)) {
      numbers.push_back(*number);
    } else if (const int64_t* whole = std::get_if<int64_t>(&element)) {
      numbers.push_back(static_cast<double>(*whole));
    } else {
      return Wrong(key, "an array of numbers");
    }
  }
  return numbers;
}

absl::StatusOr<const GgufFile::Tensor*> GgufFile::FindTensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    return absl::NotFoundError(absl::StrCat(path(), ": no tensor '", name, "'"));
  return &found->second;
}

// The description of slice `index` of a tensor's first dim. A row is a whole number of quantised
// blocks, and so is a slice of a tensor with two or more dims.
absl::StatusOr<GgufFile::Tensor> GgufFile::FindSlice(const std::string& name, int64_t index) const {
  ASSIGN_OR_RETURN(const Tensor* tensor, FindTensor(name));
  const std::vector<int64_t>& shape = tensor->shape;
  if (shape.size() < 2 || index < 0 || index >= shape[0])
    return absl::InvalidArgumentError(
        absl::StrCat(path(), ": ", name, " has no slice ", index, " of its first dim"));
  const uint64_t bytes = tensor->bytes / static_cast<uint64_t>(shape[0]);
  return Tensor{{shape.begin() + 1, shape.end()},
                tensor->type,
                tensor->offset + static_cast<uint64_t>(index) * bytes,
                bytes};
}

absl::StatusOr<at::Tensor> GgufFile::ReadAt(const std::string& name, const Tensor& tensor) const {
  const GgufType& type = *FindGgufType(tensor.type);
  if (!type.readable())
    return absl::UnimplementedError(
        absl::StrCat(path(), ": ", name, ": ", UnreadableGgufType(type)));
  if (type.elements == 1 && type.bytes == sizeof(float))
    return ViewOf(file_, tensor.offset, tensor.shape, at::kFloat);
  at::Tensor out = at::empty(tensor.shape, at::kFloat);
  Dequantise(type, file_->bytes().data() + tensor.offset, out.numel() / type.elements,
             out.mutable_data_ptr<float>());
  return out;
}

absl::StatusOr<at::Tensor> GgufFile::Read(const std::string& name) const {
  ASSIGN_OR_RETURN(const Tensor* tensor, FindTensor(name));
  return ReadAt(name, *tensor);
}

absl::StatusOr<at::Tensor> GgufFile::ReadSlice(const std::string& name, int64_t index) const {
  ASSIGN_OR_RETURN(const Tensor slice, FindSlice(name, index));
  return ReadAt(name, slice);
}

at::Tensor GgufFile::BlocksAt(const Tensor& tensor) const {
  const GgufType& type = *FindGgufType(tensor.type);
  std::vector<int64_t> shape = tensor.shape;
  if (shape.empty()) shape = {1};
  shape.back() = shape.back() / type.elements * type.bytes;
  return ViewOf(file_, tensor.offset, shape, at::kByte);
}

absl::StatusOr<at::Tensor> GgufFile::ReadBlocks(const std::string& name) const {
  ASSIGN_OR_RETURN(const Tensor* tensor, FindTensor(name));
  return BlocksAt(*tensor);
}

absl::StatusOr<at::Tensor> GgufFile::ReadBlocksOfSlice(const std::string& name,
                                                       int64_t index) const {
  ASSIGN_OR_RETURN(const Tensor slice, FindSlice(name, index));
  return BlocksAt(slice);
}

}  // namespace moonring::model
