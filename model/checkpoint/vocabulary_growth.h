#ifndef MOONRING_MODEL_CHECKPOINT_VOCABULARY_GROWTH_H_
#define MOONRING_MODEL_CHECKPOINT_VOCABULARY_GROWTH_H_

// New rows of an embedding or a head, initialised as in LLaMA-Factory (resize_vocab):
//
//   row = mean of the existing rows + n, n ~ N(0, 1/D) per element, with D features: about the norm
//   of a row of a
//       newly initialised embedding
//
// The number of rows becomes a multiple of 64; all existing rows count in the mean. The mean is
// summed in fp64 in the order of the rows, and the noise n is a function of (seed, the weight's
// name). So the new rows have the same bits on every rank, in every run, and for any number of
// threads and file format. Cost: one pass over the embedding or head.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/strings/string_view.h"

namespace moonring::model {

// Number of rows of an embedding for `tokens` tokens: the next multiple of 64.
int64_t GrownHeight(int64_t tokens);

// Returns an embedding or head of [rows, D] whose first V rows are those of table_VD (any floating
// dtype, on the CPU). rows must be >= V.
at::Tensor WithNewRows(const at::Tensor& table_VD, int64_t rows, uint64_t seed,
                       absl::string_view name);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_VOCABULARY_GROWTH_H_
