#ifndef MOONRING_MODEL_CHECKPOINT_VOCABULARY_GROWTH_H_
#define MOONRING_MODEL_CHECKPOINT_VOCABULARY_GROWTH_H_

// New rows of an embedding or a head, as LLaMA-Factory begins them (resize_vocab):
//
//   row = mean of the rows that there are + n,    n ~ N(0, 1/D) an element: as long as a row of a
//       freshly made embedding
//
// The table's height becomes a multiple of 64, all rows that it had count in the mean. The mean is
// summed in fp64 in the order of the rows and the noise is a function of (seed, the weight's name):
// the same bits on every rank, run, number of threads and kind of file. Cost: one pass over the
// table.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/strings/string_view.h"

namespace moonring::model {

// Rows that a table for `tokens` tokens has.
int64_t GrownHeight(int64_t tokens);

// table_VD (any floating dtype, on the CPU) -> [rows, D], of which the first V are the table's.
// rows >= V.
at::Tensor WithNewRows(const at::Tensor& table_VD, int64_t rows, uint64_t seed,
                       absl::string_view name);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_VOCABULARY_GROWTH_H_
