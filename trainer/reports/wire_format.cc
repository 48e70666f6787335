#include "trainer/reports/wire_format.h"

#include <bit>

namespace moonring::trainer {
namespace {

enum WireType { kVarint = 0, kEightBytes = 1, kSized = 2, kFourBytes = 5 };

void AppendVarint(std::string& bytes, uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
}

void AppendLittle(std::string& bytes, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
}

std::optional<uint64_t> TakeVarint(absl::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

}  // namespace

void WireMessage::Key(int field, int wire_type) {
  AppendVarint(bytes_, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
}

WireMessage& WireMessage::Integer(int field, int64_t value) {
  Key(field, kVarint);
  AppendVarint(bytes_, static_cast<uint64_t>(value));
  return *this;
}

WireMessage& WireMessage::Double(int field, double value) {
  Key(field, kEightBytes);
  AppendLittle(bytes_, std::bit_cast<uint64_t>(value), 8);
  return *this;
}

WireMessage& WireMessage::Float(int field, float value) {
  Key(field, kFourBytes);
  AppendLittle(bytes_, std::bit_cast<uint32_t>(value), 4);
  return *this;
}

WireMessage& WireMessage::Bytes(int field, absl::string_view value) {
  Key(field, kSized);
  AppendVarint(bytes_, value.size());
  bytes_.append(value.data(), value.size());
  return *this;
}

WireMessage& WireMessage::Doubles(int field, const std::vector<double>& values) {
  std::string packed;
  for (const double value : values) AppendLittle(packed, std::bit_cast<uint64_t>(value), 8);
  return Bytes(field, packed);
}

std::optional<int64_t> FindInteger(absl::string_view message, int field) {
  while (!message.empty()) {
    const std::optional<uint64_t> key = TakeVarint(message);
    if (!key.has_value()) return std::nullopt;
    uint64_t size = 0;
    switch (*key & 7) {
      case kVarint: {
        const std::optional<uint64_t> value = TakeVarint(message);
        if (!value.has_value()) return std::nullopt;
        if (static_cast<int64_t>(*key >> 3) == field) return static_cast<int64_t>(*value);
        continue;
      }
      case kEightBytes:
        size = 8;
        break;
      case kFourBytes:
        size = 4;
        break;
      case kSized: {
        const std::optional<uint64_t> given = TakeVarint(message);
        if (!given.has_value()) return std::nullopt;
        size = *given;
        break;
      }
      default:
        return std::nullopt;
    }
    if (size > message.size()) return std::nullopt;
    message.remove_prefix(size);
  }
  return 0;
}

}  // namespace moonring::trainer
