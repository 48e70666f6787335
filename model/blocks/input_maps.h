#ifndef MOONRING_MODEL_BLOCKS_INPUT_MAPS_H_
#define MOONRING_MODEL_BLOCKS_INPUT_MAPS_H_

// The linear maps at the input of any mixer: y_i = W_i n + b_i, n the stream's rows, normalised if
// the block has that norm. n is not kept for the backward, unless an adapter needs it.

#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"

namespace moonring::model {

// One result for each of `places` (block_weights.h), in the matmul dtype.
std::vector<at::Tensor> ProjectInput(const BlockRule& rule, const BlockMaps& maps,
                                     const at::Tensor& hidden_TD, absl::Span<const int> places);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_INPUT_MAPS_H_
