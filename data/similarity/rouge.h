// ROUGE-1, ROUGE-2 and ROUGE-L of one prediction and its label over words: the `f` of rouge-chinese
// 1.0.3.
//
//   ROUGE-n   p = n-grams in both / those of the prediction, r = ... / those of the label; each
//             distinct n-gram counts once
//   ROUGE-L   p = longest common subsequence / words of the prediction, r = ... / of the label
//   f = 2 p r / (p + r + 1e-8)
//
// As in rouge-chinese, the given words are joined with spaces and split again: into sentences (at
// line ends, and after end marks that are not followed by a quotation mark), and each sentence at
// white space. A sentence of white space alone is one empty word, so two consecutive line ends
// produce a word.
//
// All three scores are 0 if a text has no words (LLaMA-Factory checks this before it calls the
// package). Cost of ROUGE-L: product of the two word counts.
#ifndef MOONRING_DATA_SIMILARITY_ROUGE_H_
#define MOONRING_DATA_SIMILARITY_ROUGE_H_

#include <string>
#include <vector>

namespace moonring::data {

struct RougeScores {
  double rouge_1 = 0.0, rouge_2 = 0.0, rouge_l = 0.0;
};

// Words must be well-formed UTF-8.
RougeScores Rouge(const std::vector<std::string>& prediction,
                  const std::vector<std::string>& label);

}  // namespace moonring::data

#endif  // MOONRING_DATA_SIMILARITY_ROUGE_H_
