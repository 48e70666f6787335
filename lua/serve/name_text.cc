#include "lua/serve/name_text.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace moonring::serve {
namespace {

// Bytes of the character at the text's beginning; 0 if it is not UTF-8.
size_t CharacterSize(absl::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  uint32_t code = first & (0x7f >> size);
  for (size_t i = 1; i < size; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte & 0x3f);
  }
  const uint32_t least = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < least || code > 0x10ffff || is_surrogate ? 0 : size;
}

}  // namespace

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t size = CharacterSize(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

absl::Status CheckText(absl::string_view text, size_t most) {
  if (text.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a text of at most ", most, " bytes, got ", text.size()));
  }
  if (!IsUtf8(text)) return absl::InvalidArgumentError("expected a text of UTF-8");
  return absl::OkStatus();
}

}  // namespace moonring::serve
