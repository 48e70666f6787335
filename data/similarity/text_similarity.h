// Similarity of a prediction and its label: the four numbers of LLaMA-Factory's ComputeSimilarity,
// in percent and rounded to four decimals: BLEU-4 (bleu.h) over characters, ROUGE (rouge.h) over
// jieba's words (word_segmenter.h).
#ifndef MOONRING_DATA_SIMILARITY_TEXT_SIMILARITY_H_
#define MOONRING_DATA_SIMILARITY_TEXT_SIMILARITY_H_

#include "absl/strings/string_view.h"
#include "data/similarity/word_segmenter.h"

namespace moonring::data {

struct TextSimilarity {
  double bleu_4 = 0.0, rouge_1 = 0.0, rouge_2 = 0.0, rouge_l = 0.0;
};

TextSimilarity CompareTexts(const WordSegmenter& segmenter, absl::string_view prediction,
                            absl::string_view label);

}  // namespace moonring::data

#endif  // MOONRING_DATA_SIMILARITY_TEXT_SIMILARITY_H_
