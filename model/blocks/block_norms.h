#ifndef MOONRING_MODEL_BLOCKS_BLOCK_NORMS_H_
#define MOONRING_MODEL_BLOCKS_BLOCK_NORMS_H_

// The norms of a block: RmsNorm (layers.h) with the stored weight w, or with 1 + w in families
// whose norms are defined so (BlockRule).

#include <ATen/core/Tensor.h>

#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"

namespace moonring::model {

at::Tensor NormWeight(const BlockRule& rule, const BlockMaps& maps, int norm);

at::Tensor Normed(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& x_TD, int norm,
                  at::ScalarType result);

// Returns the input of a linear map in the matmul dtype: rows of the residual stream, normalised if
// the block has the norm with BlockWeight index `norm`.
at::Tensor MapInput(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& stream_TD,
                    int norm);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_BLOCK_NORMS_H_
