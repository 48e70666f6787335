// Softmax attention as a block's mixer, with keys and values computed from a low-dimensional latent
// (multi-head latent attention: DeepSeek-V2, arXiv:2405.04434, section 2.1; DeepSeek-V3, Kimi-K2,
// Moonlight). With n = norm_a(x), for each of H heads with Dp + Dr features of queries and keys
// (the last Dr are rotated) and Dv of values, and a latent c of R features:
//
//   q             = Wuq norm_q(Wdq n), or Wq n                [T, H, Dp + Dr]
//   [c | r]       = Wdkv n                                    [T, R + Dr]
//   [p | v]       = Wukv norm_c(c)                            [T, H, Dp + Dv]
//   k             = [p | r]                                   r is shared by all heads
//   heads         = attention(q, k, v)                        [T, H Dv]
//
// Rotary embedding is applied to the last Dr features of q and k, either to pairs of neighbours or
// to the two halves. A permutation of features that q and k share does not change q k^T, so the
// features are not reordered.
//
// As in Transformers, attention receives the full keys and values of H heads (Dp + Dr and Dv
// features), so ranks exchange these, not the smaller latent. The backward keeps q, k, v and the
// two latents.

#include <utility>
#include <vector>

#include <ATen/ops/cat.h>

#include "attention/attention.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_norms.h"
#include "model/blocks/block_rows.h"
#include "model/blocks/block_rule.h"
#include "model/blocks/input_maps.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"
#include "model/blocks/rotary.h"
#include "model/config/config.h"
#include "model/mixers/mixers.h"

namespace moonring::model {
namespace {

// Returns W norm(c) for a latent c. The normalised latent is kept for the backward only if an
// adapter needs it.
at::Tensor FromLatent(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& latent_TR,
                      int norm, int map) {
  const Projection& up = maps.Map(map);
  const at::Tensor weight_R = NormWeight(rule, maps, norm);
  if (up.adapted())
    return Project(up, RmsNorm(latent_TR, weight_R, rule.latent.norm_eps, rule.matmul_dtype));
  return NormedLinear(latent_TR, weight_R, rule.latent.norm_eps, {up.weight_OI}, {up.bias_O},
                      {up.sum})[0];
}

MixerOutput RunLatent(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD,
                      const BlockRows& rows, attention::PlannedAttention& attention,
                      attention::KeptAttention* kept) {
  const LatentRule& latent = rule.latent;
  const int64_t tokens = hidden_TD.size(0), heads = rule.heads, plain = latent.plain_dim,
                turning = latent.rotary_dim, value = latent.value_dim;
  const int query = maps.Has(kQueryDown) ? kQueryDown : kQuery;
  std::vector<at::Tensor> made = ProjectInput(rule, maps, hidden_TD, {query, kKeyValueDown});
  at::Tensor q_THD = std::move(made[0]);
  if (query == kQueryDown) q_THD = FromLatent(rule, maps, q_THD, kQueryDownNorm, kQueryUp);
  q_THD = q_THD.view({tokens, heads, plain + turning});

  // Uses split instead of several slices, because the backward of split allocates only one tensor.
  const std::vector<at::Tensor> latent_and_key =
      made[1].split_with_sizes({latent.key_value_rank, turning}, 1);
  at::Tensor shared_T1D = latent_and_key[1].unsqueeze(1);
  const std::vector<at::Tensor> keys_and_values =
      FromLatent(rule, maps, latent_and_key[0].contiguous(), kKeyValueDownNorm, kKeyValueUp)
          .view({tokens, heads, plain + value})
          .split_with_sizes({plain, value}, 2);
  if (rows.rotary != nullptr) {
    const std::vector<at::Tensor> parts = q_THD.split_with_sizes({plain, turning}, 2);
    TurnedHeads turned = ApplyRotary(parts[1], shared_T1D, *rows.rotary);
    q_THD = at::cat({parts[0], turned.q_THD}, 2);
    shared_T1D = std::move(turned.k_TKD);
  }
  const at::Tensor k_THD =
      at::cat({keys_and_values[0], shared_T1D.expand({tokens, heads, turning})}, 2);
  // Makes a copy: a view of the map's result would also keep the keys' half of it in memory.
  const at::Tensor v_THV = keys_and_values[1].contiguous();
  return {
      attention.Forward(q_THD, k_THD, v_THV, rule.scores, kept).reshape({tokens, heads * value}),
      {}};
}

std::vector<int64_t> ShapeOfLatent(const ModelConfig& config, const LayerRule& layer, int place) {
  const LatentRule& latent = config.latent;
  const int64_t d = config.hidden_size, q = config.heads * layer.head_dim;
  const auto where = [](bool there, std::vector<int64_t> shape) {
    return there ? shape : std::vector<int64_t>();
  };
  const bool ranked = latent.query_rank > 0;
  switch (place) {
    case kQuery:
      return where(!ranked, {q, d});
    case kQueryDown:
      return where(ranked, {latent.query_rank, d});
    case kQueryDownNorm:
      return where(ranked, {latent.query_rank});
    case kQueryUp:
      return where(ranked, {q, latent.query_rank});
    case kKeyValueDown:
      return {latent.key_value_rank + latent.rotary_dim, d};
    case kKeyValueDownNorm:
      return {latent.key_value_rank};
    case kKeyValueUp:
      return {config.heads * (latent.plain_dim + latent.value_dim), latent.key_value_rank};
    case kOutput:
      return {d, config.heads * latent.value_dim};
    default:
      return {};
  }
}

bool LatentIsBiased(const ModelConfig& config, int place) {
  return place == kOutput ? config.output_bias : place != kQuery && config.qkv_bias;
}

std::vector<MixerSize> SizesOfLatent(const ModelConfig& config) {
  const LatentRule& latent = config.latent;
  return {{"key_value_rank", "kv_lora_rank", latent.key_value_rank},
          {"query_rank", "q_lora_rank", latent.query_rank},
          {"", "qk_nope_head_dim", latent.plain_dim},
          {"rotary_dim", "qk_rope_head_dim", latent.rotary_dim},
          {"", "v_head_dim", latent.value_dim},
          {"", "the eps of latents' norms", latent.norm_eps}};
}

constexpr MixerGgufName kGgufOfLatent[] = {
    {kQueryDown, "attn_q_a"},
    {kQueryDownNorm, "attn_q_a_norm"},
    {kQueryUp, "attn_q_b"},
    {kKeyValueDown, "attn_kv_a_mqa"},
    {kKeyValueDownNorm, "attn_kv_a_norm"},
    {kKeyValueUp, "attn_kv_b"},
};

}  // namespace

constinit const Mixer kLatentAttention = {
    .name = "attention",
    .layers_fact = "attention_layers",
    .layer_type = "full_attention",
    .cache = MixerCache::kKeys,
    .output = kOutput,
    .shape = ShapeOfLatent,
    .biased = LatentIsBiased,
    .run = RunLatent,
    .sizes = SizesOfLatent,
    .describe = [](const ModelConfig&) -> std::string { return "softmax attention"; },
    .gguf = kGgufOfLatent,
};

}  // namespace moonring::model
