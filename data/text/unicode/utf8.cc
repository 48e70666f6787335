#include "data/text/unicode/utf8.h"

#include <cstring>

#include <utf8proc.h>

namespace moonring::data {
namespace {

struct Part {
  size_t length;  // of the sequence, or of the maximal malformed subpart; at least 1
  bool valid;
};

// Reads one sequence by table 3-7 of the Unicode standard (well-formed byte sequences).
Part ReadSequence(absl::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(at);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint8_t low = 0x80, high = 0xBF;  // range of the second byte
  if (lead == 0xE0) low = 0xA0;     // overlong
  if (lead == 0xED) high = 0x9F;    // surrogates
  if (lead == 0xF0) low = 0x90;     // overlong
  if (lead == 0xF4) high = 0x8F;    // beyond U+10FFFF
  for (size_t i = 1; i < length; ++i) {
    if (at + i >= text.size() || byte(at + i) < low || byte(at + i) > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true};
}

}  // namespace

size_t ValidUtf8Prefix(absl::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t block;
    while (at + sizeof(block) <= text.size()) {
      std::memcpy(&block, text.data() + at, sizeof(block));
      if (block & 0x8080808080808080ull) break;
      at += sizeof(block);
    }
    if (at == text.size()) break;
    const Part part = ReadSequence(text, at);
    if (!part.valid) break;
    at += part.length;
  }
  return at;
}

size_t CompleteUtf8Prefix(absl::string_view text) {
  constexpr size_t kLongest = 4;
  for (size_t length = 1; length < kLongest && length <= text.size(); ++length) {
    const size_t at = text.size() - length;
    const uint8_t lead = static_cast<uint8_t>(text[at]);
    if (lead < 0x80) break;
    if (lead < 0xC0) continue;
    const size_t wants = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    const Part part = ReadSequence(text, at);
    const bool begins = lead >= 0xC2 && lead <= 0xF4 && !part.valid && part.length == length;
    return begins && length < wants ? at : text.size();
  }
  return text.size();
}

std::string ReplaceMalformedUtf8(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (true) {
    const size_t valid = ValidUtf8Prefix(text);
    out.append(text.data(), valid);
    text.remove_prefix(valid);
    if (text.empty()) return out;
    out.append("\xEF\xBF\xBD");
    text.remove_prefix(ReadSequence(text, 0).length);
  }
}

char32_t NextCodePoint(absl::string_view text, size_t& at) {
  const auto byte = [&](size_t i) {
    return static_cast<char32_t>(static_cast<uint8_t>(text[at + i]));
  };
  const char32_t lead = byte(0);
  char32_t code_point;
  size_t length;
  if (lead < 0x80) {
    code_point = lead;
    length = 1;
  } else if (lead < 0xE0) {
    code_point = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    length = 2;
  } else if (lead < 0xF0) {
    code_point = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    length = 3;
  } else {
    code_point =
        (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    length = 4;
  }
  at += length;
  return code_point;
}

size_t PreviousCodePoint(absl::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  return at;
}

void AppendCodePoint(char32_t code_point, std::string& text) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t length =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

bool IsWhiteSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

size_t BeginOfTrailingSpace(absl::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    const size_t previous = PreviousCodePoint(text, begin);
    size_t at = previous;
    if (!IsWhiteSpace(NextCodePoint(text, at))) break;
    begin = previous;
  }
  return begin;
}

size_t EndOfLeadingSpace(absl::string_view text) {
  size_t end = 0;
  for (size_t at = 0; at < text.size() && IsWhiteSpace(NextCodePoint(text, at));) end = at;
  return end;
}

bool IsWordCharacter(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:  // circled and squared letters are alphabetic symbols
      return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
             (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
             (c >= 0x1F170 && c <= 0x1F189);
  }
}

}  // namespace moonring::data
