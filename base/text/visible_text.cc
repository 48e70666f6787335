#include "base/text/visible_text.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_format.h"

namespace moonring::base {
namespace {

// A UTF-8 character and its number of bytes; 0 bytes if `text` does not begin with a complete one.
struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};

Character FirstCharacter(absl::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  uint32_t code = lead & (0x7f >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return {};
    code = code << 6 | (next & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // rejects overlong forms
  if (code < kLeast[bytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {};
  return {code, bytes};
}

bool IsObeyed(uint32_t code) {
  return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7f && code < 0xa0) ||
         (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

std::string VisibleText(absl::string_view text) {
  std::string visible;
  visible.reserve(text.size());
  while (!text.empty()) {
    const Character next = FirstCharacter(text);
    const size_t taken = next.bytes == 0 ? 1 : next.bytes;
    if (next.bytes == 0 || (IsObeyed(next.code) && next.code < 0x80)) {
      absl::StrAppendFormat(&visible, "\\x%02x", static_cast<unsigned char>(text[0]));
    } else if (IsObeyed(next.code)) {
      absl::StrAppendFormat(&visible, "\\u%04x", next.code);
    } else {
      visible.append(text.data(), taken);
    }
    text.remove_prefix(taken);
  }
  return visible;
}

}  // namespace moonring::base
