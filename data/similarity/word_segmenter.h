// Segments a text into words, exactly like jieba 0.42.1's cut(). The words concatenated are the
// text.
//
// Runs of Han characters, Latin letters, digits and + # & . _ % - are segmented along the most
// probable path of listed words: the maximum of the sum of log(frequency / total), where unlisted
// characters have frequency 1; ties go to the longer word. Consecutive single characters on this
// path that do not form a listed word are segmented again: Han characters by a hidden Markov model
// (Viterbi path over begin, middle, end, single), others into runs of letters and digits with a
// decimal part and a % sign. Any other character is a word by itself; so is \r\n.
//
// Malformed UTF-8 becomes U+FFFD. Thread-safe. Cost: n log N for n characters of text and N listed
// words, which have at most 16 characters.
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
