#include "lua/serve/wire.h"

#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"

namespace moonring::serve {
namespace {

constexpr int kBeginGroup = 3, kEndGroup = 4;
constexpr int kMostNestedGroups = 32;
constexpr uint64_t kLargestNumber = (uint64_t{1} << 29) - 1;  // of a field

void AppendVarint(uint64_t value, std::string& bytes) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
}

}  // namespace

double WireField::AsDouble() const {
  double number;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

absl::Status WireReader::Fault(absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat("not a protobuf message: byte ", size_ - rest_.size(), ": ", what));
}

absl::StatusOr<uint64_t> WireReader::Varint() {
  uint64_t value = 0;
  for (size_t i = 0; i < rest_.size() && i < 10; ++i) {
    const auto byte = static_cast<uint8_t>(rest_[i]);
    if (i == 9 && byte > 1) return Fault("an integer of more than 64 bits");
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      rest_.remove_prefix(i + 1);
      return value;
    }
  }
  return Fault("the message ends inside an integer");
}

absl::StatusOr<uint64_t> WireReader::Fixed(size_t size) {
  if (rest_.size() < size) return Fault("the message ends inside a number");
  uint64_t value = 0;
  std::memcpy(&value, rest_.data(), size);  // this machine is little-endian, as the format is
  rest_.remove_prefix(size);
  return value;
}

absl::Status WireReader::Content(int type, WireField& field) {
  switch (type) {
    case static_cast<int>(WireField::Kind::kVarint): {
      ASSIGN_OR_RETURN(field.value, Varint());
      break;
    }
    case static_cast<int>(WireField::Kind::kFixed64): {
      ASSIGN_OR_RETURN(field.value, Fixed(8));
      break;
    }
    case static_cast<int>(WireField::Kind::kFixed32): {
      ASSIGN_OR_RETURN(field.value, Fixed(4));
      break;
    }
    case static_cast<int>(WireField::Kind::kBytes): {
      ASSIGN_OR_RETURN(const uint64_t size, Varint());
      if (size > rest_.size()) {
        return Fault(
            absl::StrCat("a field of ", size, " bytes, but ", rest_.size(), " bytes are left"));
      }
      field.bytes = rest_.substr(0, size);
      rest_.remove_prefix(size);
      break;
    }
    default:
      return Fault(absl::StrCat("there is no wire type ", type));
  }
  field.kind = static_cast<WireField::Kind>(type);
  return absl::OkStatus();
}

absl::Status WireReader::SkipGroup(int number) {
  std::vector<uint64_t> open = {static_cast<uint64_t>(number)};
  while (!open.empty()) {
    if (rest_.empty()) return Fault("the message ends inside a group");
    ASSIGN_OR_RETURN(const uint64_t tag, Varint());
    const int type = static_cast<int>(tag & 7);
    if (type == kEndGroup) {
      if (tag >> 3 != open.back()) return Fault("the end of another group");
      open.pop_back();
    } else if (type == kBeginGroup) {
      if (open.size() >= kMostNestedGroups) return Fault("groups are nested too deeply");
      open.push_back(tag >> 3);
    } else {
      WireField skipped;
      RETURN_IF_ERROR(Content(type, skipped));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> WireReader::Next(WireField& field) {
  while (!rest_.empty()) {
    ASSIGN_OR_RETURN(const uint64_t tag, Varint());
    if (tag >> 3 == 0 || tag >> 3 > kLargestNumber)
      return Fault(absl::StrCat("there is no field number ", tag >> 3));
    field = WireField{.number = static_cast<int>(tag >> 3)};
    const int type = static_cast<int>(tag & 7);
    if (type == kBeginGroup) {
      RETURN_IF_ERROR(SkipGroup(field.number));
      continue;
    }
    RETURN_IF_ERROR(Content(type, field));
    return true;
  }
  return false;
}

absl::Status EachField(absl::string_view message,
                       absl::FunctionRef<absl::Status(const WireField&)> take) {
  WireReader reader(message);
  WireField field;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(field));
    if (!more) return absl::OkStatus();
    RETURN_IF_ERROR(take(field));
  }
}

absl::Status AppendIntegers(const WireField& field, size_t most, std::vector<int64_t>& values) {
  const auto room = [&] {
    return values.size() < most
               ? absl::OkStatus()
               : absl::InvalidArgumentError(absl::StrCat("expected at most ", most, " numbers"));
  };
  if (field.kind == WireField::Kind::kVarint) {
    RETURN_IF_ERROR(room());
    values.push_back(static_cast<int64_t>(field.value));
    return absl::OkStatus();
  }
  if (field.kind != WireField::Kind::kBytes)
    return absl::InvalidArgumentError("expected integers, got fixed numbers");
  // A packed field is a sequence of varints without tags.
  absl::string_view rest = field.bytes;
  while (!rest.empty()) {
    RETURN_IF_ERROR(room());
    uint64_t value = 0;
    size_t i = 0;
    for (; i < rest.size() && i < 10; ++i) {
      const auto byte = static_cast<uint8_t>(rest[i]);
      value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte < 0x80) break;
    }
    if (i == rest.size() || i == 10)
      return absl::InvalidArgumentError("the message ends inside an integer");
    rest.remove_prefix(i + 1);
    values.push_back(static_cast<int64_t>(value));
  }
  return absl::OkStatus();
}

void WireWriter::Tag(int number, WireField::Kind kind) {
  AppendVarint(static_cast<uint64_t>(number) << 3 | static_cast<uint64_t>(kind), bytes_);
}

void WireWriter::Varint(int number, uint64_t value) {
  if (value == 0) return;
  Tag(number, WireField::Kind::kVarint);
  AppendVarint(value, bytes_);
}

void WireWriter::Double(int number, double value) {
  Tag(number, WireField::Kind::kFixed64);
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void WireWriter::Bytes(int number, absl::string_view bytes) {
  if (!bytes.empty()) Message(number, bytes);
}

void WireWriter::Message(int number, absl::string_view bytes) {
  Tag(number, WireField::Kind::kBytes);
  AppendVarint(bytes.size(), bytes_);
  bytes_.append(bytes.data(), bytes.size());
}

void WireWriter::PackedIntegers(int number, const std::vector<int64_t>& values) {
  std::string packed;
  for (const int64_t value : values) AppendVarint(static_cast<uint64_t>(value), packed);
  Bytes(number, packed);
}

}  // namespace moonring::serve
