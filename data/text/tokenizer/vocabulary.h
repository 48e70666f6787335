// The tokens of a model and their ids, both ways.
//
// Ids may come in any order and leave gaps, of a million ids or so in all (LargestId): a table of
// all of them is kept. Memory: twice the text.
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
// that compare tokens with a text at each of its bytes could take all of them each time. (Those in
// use have no more than some hundred.)
absl::Status CheckTokenSize(absl::string_view token, absl::string_view where);

class Vocabulary {
 public:
  enum class Repeats {
    kRefused,
    kLastCounts,  // a text may come again: its id is the last one, and each of its ids has that
                  // text
  };

  // Where there are so many tokens: a file that names few of them must not ask for a table of all
  // numbers.
  static int64_t LargestId(size_t tokens);

  // Before any is added.
  void Reserve(size_t tokens) {
    ids_.reserve(tokens);
    largest_id_ = LargestId(tokens);
  }

  // INVALID_ARGUMENT where the id is out of range or taken, or the token comes again and may not.
  absl::Status Add(absl::string_view token, int64_t id, Repeats repeats = Repeats::kRefused);

  int64_t size() const { return size_; }  // tokens
  int32_t end_id() const {
    return static_cast<int32_t>(tokens_.size());
  }  // one more than the largest id
  std::optional<int32_t> IdOf(absl::string_view token) const;
  const std::string* TokenOf(int32_t id) const;  // null where no token has that id
  const absl::flat_hash_map<std::string, int32_t>& ids() const { return ids_; }

  // The ids of <0x00> to <0xFF>, which stand for single bytes (sentencepiece's byte fallback); -1
  // where there is none.
  std::array<int32_t, 256> ByteTokens() const;

 private:
  absl::flat_hash_map<std::string, int32_t> ids_;
  std::vector<std::optional<std::string>> tokens_;  // by id
  int64_t largest_id_ = LargestId(0);
  int64_t size_ = 0;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_VOCABULARY_H_
