#ifndef MOONRING_MODEL_BLOCKS_INPUT_MAPS_H_
#define MOONRING_MODEL_BLOCKS_INPUT_MAPS_H_

// The maps at a mixer's entrance, whichever mixer it is: y_i = W_i n + b_i, n the stream's rows,
// normed where the block has that norm. Where no adapter wants n for its own backward it is not
// kept.

#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"

namespace moonring::model {

// One result for each of `places`, in the matmul dtype.
std::vector<at::Tensor> ProjectInput(const BlockRule& rule, const BlockMaps& maps,
                                     const at::Tensor& hidden_TD, absl::Span<const int> places);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_INPUT_MAPS_H_
