// A cache of the tokens of words: words of a text repeat, and a lookup is faster than any model.
//
// The cache keeps at most 65,536 words of at most 128 bytes; when it is full, it is cleared. Not
// thread-safe. A cache belongs to one model.
#ifndef MOONRING_DATA_TEXT_TOKENIZER_WORD_MEMORY_H_
#define MOONRING_DATA_TEXT_TOKENIZER_WORD_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

class WordMemory {
 public:
  // Appends the tokens of `word` from the cache. If the word is not in the cache, calls
  // encode(ids), which appends the tokens, and stores them.
  template <typename Encode>
  void Tokens(absl::string_view word, std::vector<int32_t>& ids, Encode encode) {
    if (word.size() > kLongest) return encode(ids);
    if (const auto found = known_.find(word); found != known_.end()) {
      const auto begin = ids_.begin() + found->second.begin;
      ids.insert(ids.end(), begin, begin + found->second.size);
      return;
    }
    const size_t before = ids.size();
    encode(ids);
    if (known_.size() >= kMost) {
      known_.clear();
      ids_.clear();
    }
    known_.emplace(word, Range{static_cast<uint32_t>(ids_.size()),
                               static_cast<uint32_t>(ids.size() - before)});
    ids_.insert(ids_.end(), ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end());
  }

 private:
  static constexpr size_t kLongest = 128;
  static constexpr size_t kMost = size_t{1} << 16;

  struct Range {
    uint32_t begin, size;
  };

  absl::flat_hash_map<std::string, Range> known_;  // range of the word's tokens in ids_
  std::vector<int32_t> ids_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_TOKENIZER_WORD_MEMORY_H_
