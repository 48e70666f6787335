// A text's words, the very ones that jieba 0.42.1's cut() gives: they join to the text.
//
// Runs of Han characters, Latin letters, digits and + # & . _ % - are cut along the likeliest path
// of the list's words (the sum of log(frequency / total), a character that is no word counting 1;
// of equals the longer word). What of it stays single characters in a row is no word of the list as
// a whole: Han ones are cut by a hidden Markov model (Viterbi's path over begin, middle, end,
// single), others in runs of letters and digits with a decimal part and a % sign. All else is one
// word a character, \r\n one.
//
// Malformed UTF-8 becomes U+FFFD. Thread-safe. Cost: n log N for n characters of the text, N words
// of the list; words longer than 16 characters there are none.
#ifndef MOONRING_DATA_SIMILARITY_WORD_SEGMENTER_H_
#define MOONRING_DATA_SIMILARITY_WORD_SEGMENTER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/similarity/word_list.h"

namespace moonring::data {

class WordSegmenter {
 public:
  explicit WordSegmenter(std::shared_ptr<const WordList> words) : words_(std::move(words)) {}

  std::vector<std::string> Cut(absl::string_view text) const;

 private:
  const std::shared_ptr<const WordList> words_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_SIMILARITY_WORD_SEGMENTER_H_
