// jieba's data on Chinese: words with their frequencies, and for each character the
// log-probabilities of its position in a word: B (begin), E (end), M (middle), S (single, a word by
// itself). Format of the file:
//
//   # comments, only at the beginning of the file
//   words N TOTAL                 N lines `word frequency`, sorted by their bytes; TOTAL: the sum
//                                 of all frequencies
//   characters N                  N lines `character B E M S`, log-probabilities; - where absent
//   start B E M S                 log-probabilities of a text's first character
//   after B|E|M|S B E M S         four lines: transitions from B, E, M and S
//
// data/similarity/make_words.py writes the file from Debian's python3-jieba. The text takes about 6
// MB in memory, plus 16 bytes per word.
#ifndef MOONRING_DATA_SIMILARITY_WORD_LIST_H_
#define MOONRING_DATA_SIMILARITY_WORD_LIST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

// Position of a character in its word, in alphabetical order of the letters: B, E, M, S.
enum class PlaceInWord { kBegin, kEnd, kMiddle, kSingle };
inline constexpr int kPlacesInWord = 4;

// Indexed by PlaceInWord. A probability of 0 is represented by kImpossible, as in jieba.
using LogProbabilities = std::array<double, kPlacesInWord>;
inline constexpr double kImpossible = -3.14e100;

class WordList {
 public:
  // NOT_FOUND if there is no such file; INVALID_ARGUMENT, with `path:LINE`, for a malformed file.
  static absl::StatusOr<std::shared_ptr<const WordList>> Read(const std::string& path);
  static absl::StatusOr<std::shared_ptr<const WordList>> Parse(std::string text,
                                                               absl::string_view where);

  // Calls visit(bytes, frequency) for each word that is a prefix of `text`, the shortest first.
  // `text` must be well-formed UTF-8. Cost: log N comparisons per character, until no word has this
  // prefix.
  void Prefixes(absl::string_view text,
                absl::FunctionRef<void(size_t bytes, int64_t frequency)> visit) const;
  int64_t Frequency(absl::string_view word) const;  // 0 if it is not in the list
  int64_t total() const { return total_; }          // sum of all frequencies

  const LogProbabilities& Of(char32_t character) const;
  const LogProbabilities& start() const { return start_; }
  const LogProbabilities& after(int place) const { return after_[place]; }

 private:
  struct Word {
    uint32_t begin, size;  // offset and size in text_
    int64_t frequency;
  };

  explicit WordList(std::string text) : text_(std::move(text)) {}
  absl::Status ReadLines(absl::string_view where);
  absl::string_view TextOf(const Word& word) const {
    return absl::string_view(text_).substr(word.begin, word.size);
  }

  const std::string text_;
  std::vector<Word> words_;
  int64_t total_ = 0;
  absl::flat_hash_map<char32_t, LogProbabilities> characters_;
  LogProbabilities start_ = {};
  std::array<LogProbabilities, kPlacesInWord> after_ = {};
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_SIMILARITY_WORD_LIST_H_
