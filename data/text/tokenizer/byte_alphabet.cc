#include "data/text/tokenizer/byte_alphabet.h"

#include <array>

#include "data/text/unicode/utf8.h"

namespace moonring::data {
namespace {

constexpr char32_t kFirstSubstitute = 0x100;
constexpr char32_t kSubstitutes = 68;

constexpr bool StandsForItself(char32_t c) {
  return (c >= '!' && c <= '~') || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

constexpr std::array<uint8_t, kSubstitutes> kBytesOfSubstitutes = [] {
  std::array<uint8_t, kSubstitutes> bytes{};
  size_t n = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (!StandsForItself(static_cast<char32_t>(byte))) bytes[n++] = static_cast<uint8_t>(byte);
  }
  return bytes;
}();

constexpr std::array<char32_t, 256> kLetters = [] {
  std::array<char32_t, 256> letters{};
  for (char32_t byte = 0; byte < 256; ++byte) letters[byte] = byte;
  for (char32_t i = 0; i < kSubstitutes; ++i)
    letters[kBytesOfSubstitutes[i]] = kFirstSubstitute + i;
  return letters;
}();

}  // namespace

char32_t LetterOfByte(uint8_t byte) { return kLetters[byte]; }

std::optional<std::string> BytesOfLetters(absl::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  for (size_t at = 0; at < token.size();) {
    const char32_t c = NextCodePoint(token, at);
    if (StandsForItself(c)) {
      bytes.push_back(static_cast<char>(c));
    } else if (c >= kFirstSubstitute && c < kFirstSubstitute + kSubstitutes) {
      bytes.push_back(static_cast<char>(kBytesOfSubstitutes[c - kFirstSubstitute]));
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

std::string LettersOfBytes(absl::string_view bytes) {
  std::string letters;
  for (const char byte : bytes) AppendCodePoint(LetterOfByte(static_cast<uint8_t>(byte)), letters);
  return letters;
}

}  // namespace moonring::data
