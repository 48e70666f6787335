#ifndef MOONRING_MIXERS_DELTA_RULE_H_
#define MOONRING_MIXERS_DELTA_RULE_H_

// The gated delta rule (equation and shapes in delta_inputs.h) over a packed stream of documents on
// one rank, by chunks of 64 tokens (delta_chunks.h), as one node of autograd's graph.
//
// Documents never mix: each starts from zeros or from its row of `initial_DHVK`, and chunk borders
// are counted from its own first token. Both the outputs and the last states have gradients, and
// all inputs get one. A rank that has the middle of a document gives the state that came to it and
// hands the last one on: the result is that of the whole document, up to
// rounding.
//
// Kept for backward: the inputs and a state for each chunk, ceil(T / 64) H d_v d_k numbers in fp32.
// Everything inside chunks is made twice. Some heads and some chunks go at a time, so that working
// memory is bounded whatever the length (TilesOf, packed_heads.h): some thirty tensors of its most
// numbers in backward. Runs on any device that LibTorch has; on a GPU by kernels (fused_delta.h).
//
// Throws (TORCH_CHECK) where shapes, dtypes or devices do not fit.
// Source: Yang et al., arXiv:2406.06484, arXiv:2412.06464.

#include <vector>

#include "mixers/delta_inputs.h"

namespace moonring::mixers {

// `lengths`: tokens of each document, in their order; some may be 0.
DeltaResult GatedDeltaRule(const DeltaInputs& inputs, const std::vector<int64_t>& lengths,
                           const DeltaOptions& options);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_DELTA_RULE_H_
