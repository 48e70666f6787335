// The tokens of a model by id, and ids by token.
//
// Ids may be added in any order and may have gaps, up to about a million missing ids in total
// (LargestId), because a table of all ids is kept. Memory: twice the size of the texts.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_VOCABULARY_H_
#define MOONRING_DATA_TEXT_TOKENIZER_VOCABULARY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

// INVALID_ARGUMENT, with `where`, for a token of more than a thousand bytes: models and searches
// that compare tokens with a text at each byte would otherwise take too long. (Tokens in use have
// at most a few hundred bytes.)
absl::Status CheckTokenSize(absl::string_view token, absl::string_view where);

class Vocabulary {
 public:
  enum class Repeats {
    kRefused,
    // a text may be repeated: its id is the last one, and all its ids map to that text
    kLastCounts,
  };

  // The largest allowed id for this number of tokens; prevents a small file from requesting a huge
  // table.
  static int64_t LargestId(size_t tokens);

  // Must be called before any token is added.
  void Reserve(size_t tokens) {
    ids_.reserve(tokens);
    largest_id_ = LargestId(tokens);
  }

  // INVALID_ARGUMENT if the id is out of range or taken, or if a repeated token is not allowed.
  absl::Status Add(absl::string_view token, int64_t id, Repeats repeats = Repeats::kRefused);

  int64_t size() const { return size_; }                                   // number of tokens
  int32_t end_id() const { return static_cast<int32_t>(tokens_.size()); }  // largest id + 1
  std::optional<int32_t> IdOf(absl::string_view token) const;
  const std::string* TokenOf(int32_t id) const;  // null if no token has that id
  const absl::flat_hash_map<std::string, int32_t>& ids() const { return ids_; }

  // The ids of <0x00> to <0xFF>, which represent single bytes (sentencepiece's byte fallback); -1
  // for missing ones.
  std::array<int32_t, 256> ByteTokens() const;

 private:
  absl::flat_hash_map<std::string, int32_t> ids_;
  std::vector<std::optional<std::string>> tokens_;  // by id
  int64_t largest_id_ = LargestId(0);
  int64_t size_ = 0;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_VOCABULARY_H_
