#include "model/files/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "model/files/json_text.h"
#include "model/files/weight_shape.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

static_assert(std::endian::native == std::endian::little);

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLargestHeader = 100'000'000;  // the format's limit

struct DtypeName {
  at::ScalarType dtype;
  const char* name;
};
constexpr DtypeName kDtypes[] = {
    {at::kDouble, "F64"},
    {at::kFloat, "F32"},
    {at::kHalf, "F16"},
    {at::kBFloat16, "BF16"},
    {at::kFloat8_e4m3fn, "F8_E4M3"},
    {at::kLong, "I64"},
    {at::kInt, "I32"},
    {at::kShort, "I16"},
    {at::kChar, "I8"},
    {at::kFloat8_e5m2, "F8_E5M2"},
    {at::kByte, "U8"},
    {at::kUInt16, "U16"},
    {at::kUInt32, "U32"},
    {at::kUInt64, "U64"},
    {at::kBool, "BOOL"},
};

// The size of a tensor in bytes; nullopt if it does not fit in 64 bits.
std::optional<uint64_t> BytesOf(absl::Span<const int64_t> shape, at::ScalarType dtype) {
  uint64_t bytes = c10::elementSize(dtype);
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return std::nullopt;
  }
  return bytes;
}

absl::StatusOr<std::vector<int64_t>> ReadSizes(const JsonFields& fields, absl::string_view key) {
  const json* list = fields.Find(key);
  if (list == nullptr) return fields.Missing(key);
  std::vector<int64_t> sizes;
  const absl::Status wrong = fields.Wrong(key, "a list of whole numbers, none negative");
  if (!list->is_array()) return wrong;
  for (const json& size : *list) {
    if (!size.is_number_unsigned() ||
        size.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return wrong;
    sizes.push_back(size.get<int64_t>());
  }
  return sizes;
}

absl::StatusOr<SafetensorsFile::Entry> ReadEntry(const json& value, const std::string& where) {
  if (!value.is_object())
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": expected an object, got ", ShownJson(value)));
  const JsonFields fields(value, where);
  SafetensorsFile::Entry entry;
  ASSIGN_OR_RETURN(const std::string dtype, fields.String("dtype", ""));
  const std::optional<at::ScalarType> known = DtypeOfSafetensors(dtype);
  if (!known.has_value())
    return absl::InvalidArgumentError(absl::StrCat(where, ": unknown dtype '", Shown(dtype), "'"));
  entry.dtype = *known;
  ASSIGN_OR_RETURN(entry.shape, ReadSizes(fields, "shape"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, ReadSizes(fields, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    return fields.Wrong("data_offsets", "[begin, end]");
  entry.begin = static_cast<uint64_t>(offsets[0]);
  entry.end = static_cast<uint64_t>(offsets[1]);
  const std::optional<uint64_t> bytes = BytesOf(entry.shape, entry.dtype);
  if (!bytes.has_value() || *bytes != entry.end - entry.begin) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": ", dtype, " ", ShapeText(entry.shape), " takes ",
                     bytes.has_value() ? absl::StrCat(*bytes) : "more than 2^64",
                     " bytes, but data_offsets give ", entry.end - entry.begin));
  }
  return entry;
}

absl::StatusOr<std::map<std::string, std::string>> ReadMetadata(const json& value,
                                                                const std::string& where) {
  std::map<std::string, std::string> metadata;
  if (!value.is_object())
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": expected an object, got ", ShownJson(value)));
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": ", Shown(key), ": expected a string, got ", ShownJson(text)));
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

}  // namespace

absl::string_view SafetensorsDtype(at::ScalarType dtype) {
  for (const DtypeName& row : kDtypes) {
    if (row.dtype == dtype) return row.name;
  }
  return {};
}

std::optional<at::ScalarType> DtypeOfSafetensors(absl::string_view name) {
  for (const DtypeName& row : kDtypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

absl::StatusOr<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::Open(
    const std::string& path) {
  std::shared_ptr<SafetensorsFile> file(new SafetensorsFile);
  ASSIGN_OR_RETURN(file->file_, MappedFile::Open(path));
  RETURN_IF_ERROR(file->ReadHeader());
  return file;
}

absl::Status SafetensorsFile::ReadHeader() {
  const absl::string_view bytes = file_->bytes();
  const auto lying = [this](auto... pieces) {
    return absl::InvalidArgumentError(
        absl::StrCat(path(), ": not a valid safetensors file: ", pieces...));
  };
  if (bytes.size() < kLengthBytes)
    return lying("it has ", bytes.size(),
                 " bytes, less than the 8 of the header's length (truncated?)");
  uint64_t length;
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kLargestHeader)
    return lying("its header has ", length, " bytes, more than the format's limit of ",
                 kLargestHeader);
  if (length > bytes.size() - kLengthBytes)
    return lying("its header has ", length, " bytes, but ", bytes.size() - kLengthBytes,
                 " follow (truncated?)");
  ASSIGN_OR_RETURN(const json header, ParseJsonObject(bytes.substr(kLengthBytes, length),
                                                      absl::StrCat(path(), ": header")));
  for (const auto& [name, value] : header.items()) {
    const std::string where = absl::StrCat(path(), ": ", Shown(name));
    if (name == "__metadata__") {
      ASSIGN_OR_RETURN(metadata_, ReadMetadata(value, where));
    } else {
      ASSIGN_OR_RETURN(entries_[name], ReadEntry(value, where));
    }
  }
  data_begin_ = kLengthBytes + length;
  return CheckRanges(bytes.size() - data_begin_);
}

absl::Status SafetensorsFile::CheckRanges(uint64_t data_size) const {
  std::vector<std::pair<const std::string*, const Entry*>> order;
  for (const auto& [name, entry] : entries_) order.emplace_back(&name, &entry);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  uint64_t at = 0;
  for (const auto& [name, entry] : order) {
    const std::string where = absl::StrCat(path(), ": ", Shown(*name), ": ");
    if (entry->end > data_size)
      return absl::InvalidArgumentError(absl::StrCat(where, "its data ends at byte ", entry->end,
                                                     ", but the file has ", data_size,
                                                     " (truncated?)"));
    if (entry->begin < at)
      return absl::InvalidArgumentError(
          absl::StrCat(where, "its data begins at byte ", entry->begin,
                       ", inside another tensor, which ends at ", at));
    if (entry->begin > at)
      return absl::InvalidArgumentError(absl::StrCat(where, "its data begins at byte ",
                                                     entry->begin, ", leaving a hole after ", at));
    at = entry->end;
  }
  if (at != data_size)
    return absl::InvalidArgumentError(
        absl::StrCat(path(), ": ", data_size - at, " bytes after the last tensor belong to none"));
  return absl::OkStatus();
}

absl::StatusOr<at::Tensor> SafetensorsFile::Read(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    return absl::NotFoundError(absl::StrCat(path(), ": no tensor '", name, "'"));
  return ViewOf(file_, data_begin_ + found->second.begin, found->second.shape, found->second.dtype);
}

StoredWeight SafetensorsFile::Describe(const std::string& name) const {
  const Entry& entry = entries_.at(name);
  return {path(), entry.shape, std::string(SafetensorsDtype(entry.dtype)),
          IsWeightDtype(entry.dtype)
              ? ""
              : absl::StrCat("dtype ", SafetensorsDtype(entry.dtype),
                             " is not supported as a weight (F32, BF16, F16, F64 are)")};
}

}  // namespace moonring::model
