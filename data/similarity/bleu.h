// BLEU-4 of one prediction and its label over characters, as nltk's sentence_bleu with
// SmoothingFunction().method3.
//
//   p_n   = sum over n-grams g of the prediction of min(count(g), count of g in the label)
//           / max(1, n-grams of the prediction)                          n = 1..4
//   p_n   = 1 / (2^k x its denominator) for the k-th p_n that is 0 (method3)
//   BLEU  = exp(min(0, 1 - label's length / prediction's length)) x exp(sum of ln(p_n) / 4)
//
// 0 if the texts have no character in common, also if either is empty. Malformed UTF-8 is read as
// U+FFFD. Cost: linear.
#ifndef MOONRING_DATA_SIMILARITY_BLEU_H_
#define MOONRING_DATA_SIMILARITY_BLEU_H_

#include "absl/strings/string_view.h"

namespace moonring::data {

double Bleu4(absl::string_view prediction, absl::string_view label);

}  // namespace moonring::data

#endif  // MOONRING_DATA_SIMILARITY_BLEU_H_
