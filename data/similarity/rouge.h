// ROUGE-1, ROUGE-2 and ROUGE-L of one prediction and its label, over words: the `f` of
// rouge-chinese 1.0.3.
//
//   ROUGE-n   p = n-grams in both / those of the prediction, r = ... / those of the label; each
//             n-gram counts once
//   ROUGE-L   p = longest common subsequence / words of the prediction, r = ... / of the label
//   f = 2 p r / (p + r + 1e-8)
//
// Its words are those of the text that the given ones make with a space between each two. It cuts
// that text into sentences (at line ends, after the marks of an end that no quotation mark follows)
// and each sentence at white space; a sentence of white space alone is one empty word. So two line
// ends in a row are a word.
//
// All three are 0 where a text has no word (LLaMA-Factory asks before it calls the package). Cost
// of ROUGE-L: words of the one x words of the other.
#ifndef MOONRING_DATA_SIMILARITY_ROUGE_H_
#define MOONRING_DATA_SIMILARITY_ROUGE_H_

#include <string>
#include <vector>

namespace moonring::data {

struct RougeScores {
  double rouge_1 = 0.0, rouge_2 = 0.0, rouge_l = 0.0;
};

// Words are well-formed UTF-8.
RougeScores Rouge(const std::vector<std::string>& prediction,
                  const std::vector<std::string>& label);

}  // namespace moonring::data

#endif  // MOONRING_DATA_SIMILARITY_ROUGE_H_
