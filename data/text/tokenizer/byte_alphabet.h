// GPT-2's byte alphabet: each of the 256 bytes is written as one printable character, so that
// tokens are text. '!'..'~', U+00A1..U+00AC and U+00AE..U+00FF represent themselves; the other 68
// bytes, in ascending order, are represented by U+0100, U+0101, ... (so a space is U+0120). The
// mapping is one to one.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_BYTE_ALPHABET_H_
#define MOONRING_DATA_TEXT_TOKENIZER_BYTE_ALPHABET_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace moonring::data {

// The character that represents `byte`.
char32_t LetterOfByte(uint8_t byte);

// The bytes that `token` (well-formed UTF-8) represents; nullopt if a character is not in the
// alphabet.
std::optional<std::string> BytesOfLetters(absl::string_view token);

// The characters that represent `bytes`, as UTF-8.
std::string LettersOfBytes(absl::string_view bytes);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_BYTE_ALPHABET_H_
