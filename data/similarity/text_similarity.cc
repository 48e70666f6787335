#include "data/similarity/text_similarity.h"

#include <cstdio>
#include <cstdlib>

#include "data/similarity/bleu.h"
#include "data/similarity/rouge.h"

namespace moonring::data {
namespace {

// Python's round(100 x, 4): the nearest decimal to the double, ties to even.
double Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4f", share * 100.0);
  return std::strtod(text, nullptr);
}

}  // namespace

TextSimilarity CompareTexts(const WordSegmenter& segmenter, absl::string_view prediction,
                            absl::string_view label) {
  const RougeScores rouge = Rouge(segmenter.Cut(prediction), segmenter.Cut(label));
  return {.bleu_4 = Percent(Bleu4(prediction, label)),
          .rouge_1 = Percent(rouge.rouge_1),
          .rouge_2 = Percent(rouge.rouge_2),
          .rouge_l = Percent(rouge.rouge_l)};
}

}  // namespace moonring::data
