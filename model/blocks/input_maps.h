#ifndef MOONRING_MODEL_BLOCKS_INPUT_MAPS_H_
#define MOONRING_MODEL_BLOCKS_INPUT_MAPS_H_

// The linear maps at the input of any mixer: y_i = W_i n + b_i. n is the rows of the residual
// stream, normalised if the block has an input norm. n is kept for the backward only if an adapter
// needs it.

#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"

namespace moonring::model {

// Returns y_i for each of `places` (indices of BlockWeight), in the matmul dtype.
std::vector<at::Tensor> ProjectInput(const BlockRule& rule, const BlockMaps& maps,
                                     const at::Tensor& hidden_TD, absl::Span<const int> places);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_INPUT_MAPS_H_
