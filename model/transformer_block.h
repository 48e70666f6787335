#ifndef MOONRING_MODEL_TRANSFORMER_BLOCK_H_
#define MOONRING_MODEL_TRANSFORMER_BLOCK_H_

// One decoder block of the Llama kind, a pure function of its weights, hidden states, positions and attention:
//
//   h  = x + Wo attention(rotary(Wq n), rotary(Wk n), Wv n),   n = norm_1(x)
//   x' = h + Wdown (silu(Wgate m) * Wup m),                     m = norm_2(h)
//
// x, h, x' [T, D] are the residual stream, in fp32 (fp64 where matmuls are in fp64). Linear layers and attention run in the
// matmul dtype; norms and rotary embedding in the stream's. Differentiable in x and in each weight that requires it.
// T may be 0: attention is still called, as its collectives need every rank. `kept`, which may be null, is attention's.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "attention/attention.h"
#include "model/layers.h"

namespace moonring::model {

// The places of a block's weights in the list that it takes. Biases may be undefined tensors.
enum BlockWeight : int {
  kInputNorm,
  kQuery,
  kKey,
  kValue,
  kOutput,
  kPostNorm,
  kGate,
  kUp,
  kDown,
  kQueryBias,
  kKeyBias,
  kValueBias,
  kOutputBias,
  kGateBias,
  kUpBias,
  kDownBias,
  kBlockWeights,
};

struct BlockShape {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  double rms_norm_eps = 0.0;
  at::ScalarType matmul_dtype = at::kFloat;
  int64_t window = 0;  // of attention: tokens that a query sees, itself among them; 0: all before it
};

// The dtype in which the block takes a weight: norms in the stream's, the rest in the matmul's.
at::ScalarType WeightDtype(BlockWeight weight, at::ScalarType matmul_dtype);

at::Tensor TransformerBlock(const BlockShape& shape, absl::Span<const at::Tensor> weights, const at::Tensor& hidden_TD, const Rotary& rotary,
                            attention::PlannedAttention& attention, attention::KeptAttention* kept);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_TRANSFORMER_BLOCK_H_
