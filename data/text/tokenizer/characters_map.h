// Sentencepiece's precompiled map of characters: strings and what stands for them in a normalised
// text (its rules nmt_nfkc and others).
//
//   u32 size of the trie in bytes, the trie, the replacements, each ended by a zero byte
//       (little-endian)
//
// The trie is a double array of darts-clone's (S. Yata): a 32-bit unit a node. A child lies at the
// node's offset xor its byte, and bears that byte in its low bits and a zero in its highest; where
// bit 8 says so, what lies at the offset itself is a value: where the replacement begins.
//
// Parse fails with INVALID_ARGUMENT where sizes do not fit or replacements are not UTF-8. A look-up
// that leaves the array finds nothing. Cost of a look-up: linear in the match. Thread-safe.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_CHARACTERS_MAP_H_
#define MOONRING_DATA_TEXT_TOKENIZER_CHARACTERS_MAP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

class CharactersMap {
 public:
  static absl::StatusOr<CharactersMap> Parse(absl::string_view bytes);

  struct Match {
    size_t size;  // bytes of the text
    absl::string_view replacement;
  };
  enum class Prefer { kShortest, kLongest };

  // A string of the map that `text` begins with.
  std::optional<Match> Find(absl::string_view text, Prefer prefer) const;

 private:
  CharactersMap() = default;
  std::optional<absl::string_view> ReplacementAt(uint32_t begin) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_CHARACTERS_MAP_H_
