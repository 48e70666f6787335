#ifndef MOONRING_MIXERS_RULE_DELTA_RULE_H_
#define MOONRING_MIXERS_RULE_DELTA_RULE_H_

// The gated delta rule (equations and shapes: delta_inputs.h) over a packed stream of documents on
// one rank, in chunks of 64 tokens (delta_chunks.h), as one autograd node.
//
// Documents are independent: each starts from zeros or from its row of `initial_DHVK`, and its
// chunks are counted from its first token. Outputs and final states are differentiable with respect
// to all inputs. A document may be cut over ranks: if the final state of one piece is the initial
// state of the next, the result is that of the whole document, up to rounding.
//
// Saved for the backward: the inputs and one state per chunk, ceil(T / 64) H d_v d_k numbers in
// fp32 for T tokens and H value heads with a state of d_v x d_k each. Everything inside chunks is
// recomputed. A limited number of heads and chunks is processed at a time, so that working memory
// is bounded for any length (TilesOf, packed_heads.h): the backward needs about thirty tensors of
// the maximal size set there. Runs on any device that LibTorch supports; a GPU uses kernels
// (fused_delta.h).
//
// Throws (TORCH_CHECK) where shapes, dtypes or devices do not match. Source: Yang et al.,
// arXiv:2406.06484, arXiv:2412.06464.

#include <vector>

#include "mixers/rule/delta_inputs.h"

namespace moonring::mixers {

// `lengths`: tokens of each document, in order; some may be 0.
DeltaResult GatedDeltaRule(const DeltaInputs& inputs, const std::vector<int64_t>& lengths,
                           const DeltaOptions& options);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_DELTA_RULE_H_
