#ifndef MOONRING_MODEL_BLOCKS_BLOCK_NORMS_H_
#define MOONRING_MODEL_BLOCKS_BLOCK_NORMS_H_

// The norms of a block, by index (block_weights.h): RmsNorm (layers.h) with the stored weight w, or
// with 1 + w if the rule says so.

#include <ATen/core/Tensor.h>

#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"

namespace moonring::model {

at::Tensor NormWeight(const BlockRule& rule, const BlockMaps& maps, int norm);

at::Tensor Normed(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& x_TD, int norm,
                  at::ScalarType result);

// The input of a linear map: the stream's rows, normalised if the block has the norm, in the matmul
// dtype.
at::Tensor MapInput(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& stream_TD,
                    int norm);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_BLOCK_NORMS_H_
