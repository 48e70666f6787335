// Sentencepiece's precompiled character map: strings and their replacements in a normalized text
// (rules nmt_nfkc and others).
//
//   u32 size of the trie in bytes, the trie, the replacements, each ended by a zero byte
//       (little-endian)
//
// The trie is a double array of darts-clone (S. Yata), one 32-bit unit per node. A child is stored
// at the node's offset xor its byte; its low bits contain that byte, its highest bit is 0. If bit 8
// of a node is set, the unit at its offset is a value: the index of the replacement.
//
// Parse fails with INVALID_ARGUMENT if sizes do not fit or replacements are not UTF-8. A lookup
// that leaves the array finds nothing. Cost of a lookup: linear in the match. Thread-safe.
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

  // The shortest or longest string of the map that is a prefix of `text`.
  std::optional<Match> Find(absl::string_view text, Prefer prefer) const;

 private:
  CharactersMap() = default;
  std::optional<absl::string_view> ReplacementAt(uint32_t begin) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_CHARACTERS_MAP_H_
