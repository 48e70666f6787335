#ifndef MOONRING_MODEL_TRANSFORMER_BLOCK_H_
#define MOONRING_MODEL_TRANSFORMER_BLOCK_H_

// One decoder block of the Llama kind, a pure function of its linear maps, hidden states, positions and attention:
//
//   h  = x + Wo attention(rotary(Wq n), rotary(Wk n), Wv n),   n = norm_1(x)
//   x' = h + Wdown (silu(Wgate m) * Wup m),                     m = norm_2(h)
//
// x, h, x' [T, D] are the residual stream, in fp32 (fp64 where matmuls are in fp64). Linear layers and attention run in the
// matmul dtype; norms and rotary embedding in the stream's. Differentiable in x and in each weight that requires it. What a linear map
// is besides its matrix (an adapter, say) is projection.h's business: the block applies it and no more.
// T may be 0: attention is still called, as its collectives need every rank. `kept`, which may be null, is attention's.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "attention/attention.h"
#include "model/layers.h"
#include "model/projection.h"

namespace moonring::model {

// The places of a block's weights in a list of them. Biases may be undefined tensors.
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

// What a block is made of.
struct BlockMaps {
  at::Tensor input_norm_D, post_norm_D;
  Projection query, key, value, output, gate, up, down;
};

// kBlockWeights weights at their places as maps without adapters.
BlockMaps PlainMaps(absl::Span<const at::Tensor> weights);

// The map whose matrix has that place: kQuery, kKey, kValue, kOutput, kGate, kUp or kDown.
Projection& MapAt(BlockMaps& maps, BlockWeight place);

struct BlockShape {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  double rms_norm_eps = 0.0;
  at::ScalarType matmul_dtype = at::kFloat;
  int64_t window = 0;  // of attention: tokens that a query sees, itself among them; 0: all before it
};

// The dtype in which the block takes a weight: norms in the stream's, the rest in the matmul's.
at::ScalarType WeightDtype(BlockWeight weight, at::ScalarType matmul_dtype);

at::Tensor TransformerBlock(const BlockShape& shape, const BlockMaps& maps, const at::Tensor& hidden_TD, const Rotary& rotary,
                            attention::PlannedAttention& attention, attention::KeptAttention* kept);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_TRANSFORMER_BLOCK_H_
