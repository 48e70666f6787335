// Softmax attention as a block's mixer (the step of a block in which tokens interact). With x the
// residual stream and norm_a the block's input norm:
//
//   heads = attention(rotary(norm_q(Wq n)), rotary(norm_k(Wk n)), norm_v(Wv n)),   n = norm_a(x)
//
// If the heads are gated (Qwen3-Next, Qwen3.5), attention's result is multiplied by sigmoid(Wg n).
// Wq and Wg are then one matrix, with the rows of each head's query followed by the rows of its
// gate.
//
// In some families queries are also scaled by a function of their position (rotary.h).
//
// norm_v, if present, divides by the root mean square and has no weight. Keys and values may come
// from one matrix (Wv = Wk), or may be those of an earlier block.
//
// The weights that are present decide which norms exist, whether Wq, Wk, Wv are fused in one
// matrix, and whether the softmax has sinks (attention/kernels/sink.h). The argument `attention`
// communicates with the other ranks if a sequence is split over ranks.

#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sigmoid.h>

#include "attention/attention.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_norms.h"
#include "model/blocks/block_rows.h"
#include "model/blocks/block_rule.h"
#include "model/blocks/input_maps.h"
#include "model/blocks/layers.h"
#include "model/blocks/rotary.h"
#include "model/config/config.h"
#include "model/mixers/mixers.h"

namespace moonring::model {
namespace {

at::Tensor HeadNormed(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& x_THD,
                      int norm) {
  const int64_t width =
      rule.head_norm == HeadNorm::kEachHead ? x_THD.size(2) : x_THD.size(1) * x_THD.size(2);
  return Normed(rule, maps, x_THD.reshape({-1, width}), norm, rule.matmul_dtype)
      .view(x_THD.sizes());
}

// The heads before norms and rotary embedding; gate_THD is defined if the heads are gated.
struct Heads {
  at::Tensor q_THD, k_TKD, v_TKD, gate_THD;
};

Heads QueryKeyValue(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD) {
  const int64_t rows = hidden_TD.size(0), heads = rule.heads, kv_heads = rule.kv_heads,
                width = rule.head_dim;
  if (!maps.Has(kQueryKeyValue)) {
    if (rule.keys_are_values) {
      const std::vector<at::Tensor> results = ProjectInput(rule, maps, hidden_TD, {kQuery, kKey});
      const at::Tensor k_TKD = results[1].view({rows, kv_heads, width});
      return {results[0].view({rows, heads, width}), k_TKD, k_TKD, {}};
    }
    const std::vector<at::Tensor> results =
        ProjectInput(rule, maps, hidden_TD, {kQuery, kKey, kValue});
    Heads made{
        {}, results[1].view({rows, kv_heads, width}), results[2].view({rows, kv_heads, width}), {}};
    if (!rule.gated_heads) {
      made.q_THD = results[0].view({rows, heads, width});
    } else {
      const std::vector<at::Tensor> both =
          results[0].view({rows, heads, 2 * width}).split(width, 2);
      made.q_THD = both[0];
      made.gate_THD = both[1];
    }
    return made;
  }
  const at::Tensor all = ProjectInput(rule, maps, hidden_TD, {kQueryKeyValue})[0];
  if (rule.qkv_rows == QkvRows::kStacked) {
    const at::Tensor all_THD = all.view({rows, heads + 2 * kv_heads, width});
    return {all_THD.narrow(1, 0, heads),
            all_THD.narrow(1, heads, kv_heads),
            all_THD.narrow(1, heads + kv_heads, kv_heads),
            {}};
  }
  const int64_t queries = heads / kv_heads;  // query heads per kv head
  const at::Tensor all_TKGD = all.view({rows, kv_heads, queries + 2, width});
  return {all_TKGD.narrow(2, 0, queries).reshape({rows, heads, width}),
          all_TKGD.select(2, queries),
          all_TKGD.select(2, queries + 1),
          {}};
}

at::Tensor Grown(const at::Tensor& q_THD, const Rotary& rotary) {
  if (!rotary.query_scale_T11.defined()) return q_THD;
  return q_THD * rotary.query_scale_T11.to(q_THD.scalar_type());
}

at::Tensor TurnedQueries(const at::Tensor& q_THD, const Rotary* rotary) {
  return rotary == nullptr ? q_THD : Grown(ApplyRotary(q_THD, *rotary), *rotary);
}

MixerOutput RunSoftmax(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD,
                       const BlockRows& rows, attention::PlannedAttention& attention,
                       attention::KeptAttention* kept) {
  const Rotary* const rotary = rows.rotary;
  const auto mix = [&](const at::Tensor& q_THD, KeyValue seen, const at::Tensor& gate_THD) {
    attention::ScoreRule scores = rule.scores;
    if (maps.Has(kSinks)) scores.sink_H = maps.Norm(kSinks);
    at::Tensor out_THD = attention.Forward(q_THD, seen.k_TKD, seen.v_TKD, scores, kept);
    if (gate_THD.defined()) out_THD = out_THD * at::sigmoid(gate_THD);
    return MixerOutput{out_THD.reshape({hidden_TD.size(0), rule.heads * rule.head_dim}),
                       std::move(seen)};
  };
  if (rows.keys != nullptr) {
    at::Tensor q_THD = ProjectInput(rule, maps, hidden_TD, {kQuery})[0].view(
        {hidden_TD.size(0), rule.heads, rule.head_dim});
    if (maps.Has(kQueryNorm)) q_THD = HeadNormed(rule, maps, q_THD, kQueryNorm);
    return mix(TurnedQueries(q_THD, rotary), *rows.keys, {});
  }
  auto [q_THD, k_TKD, v_TKD, gate_THD] = QueryKeyValue(rule, maps, hidden_TD);
  if (maps.Has(kQueryNorm)) {
    q_THD = HeadNormed(rule, maps, q_THD, kQueryNorm);
    k_TKD = HeadNormed(rule, maps, k_TKD, kKeyNorm);
  }
  if (rule.value_norm) {
    const at::Tensor ones =
        at::ones({rule.head_dim}, v_TKD.options().dtype(WideDtype(rule.matmul_dtype)));
    v_TKD = RmsNorm(v_TKD.reshape({-1, rule.head_dim}), ones, rule.rms_norm_eps, rule.matmul_dtype)
                .view(v_TKD.sizes());
  }
  if (rotary != nullptr) {
    TurnedHeads turned = ApplyRotary(q_THD, k_TKD, *rotary);
    q_THD = Grown(turned.q_THD, *rotary);
    k_TKD = std::move(turned.k_TKD);
  }
  return mix(q_THD, {std::move(k_TKD), std::move(v_TKD)}, gate_THD);
}

std::vector<int64_t> ShapeOfSoftmax(const ModelConfig& config, const LayerRule& layer, int place) {
  const int64_t d = config.hidden_size, q = config.heads * layer.head_dim,
                kv = layer.kv_heads * layer.head_dim;
  const bool own_keys = layer.keys_of < 0, normed = config.head_norm != HeadNorm::kNone,
             each_head = config.head_norm == HeadNorm::kEachHead;
  const auto where = [](bool there, std::vector<int64_t> shape) {
    return there ? shape : std::vector<int64_t>();
  };
  switch (place) {
    case kQuery:
      return {config.gated_heads ? 2 * q : q, d};
    case kKey:
      return where(own_keys, {kv, d});
    case kValue:
      return where(own_keys && !layer.keys_are_values, {kv, d});
    case kQueryKeyValue:
      return {q + 2 * kv, d};
    case kQueryNorm:
      return where(normed, {each_head ? layer.head_dim : q});
    case kKeyNorm:
      return where(normed && own_keys, {each_head ? layer.head_dim : kv});
    case kOutput:
      return {d, q};
    case kSinks:
      return {config.heads};
    default:
      return {};
  }
}

bool SoftmaxIsBiased(const ModelConfig& config, int place) {
  return place == kOutput ? config.output_bias : config.qkv_bias;
}

constexpr MixerGgufName kGgufOfSoftmax[] = {
    {kQuery, "attn_q"},          {kKey, "attn_k"},
    {kValue, "attn_v"},          {kQueryKeyValue, "attn_qkv"},
    {kQueryNorm, "attn_q_norm"}, {kKeyNorm, "attn_k_norm"},
    {kOutput, "attn_output"},    {kSinks, "attn_sinks"},
};

}  // namespace

constinit const Mixer kSoftmaxAttention = {
    .name = "attention",
    .layers_fact = "attention_layers",
    .layer_type = "full_attention",
    .cache = MixerCache::kKeys,
    .output = kOutput,
    .shape = ShapeOfSoftmax,
    .biased = SoftmaxIsBiased,
    .run = RunSoftmax,
    .describe = [](const ModelConfig&) -> std::string { return "softmax attention"; },
    .gguf = kGgufOfSoftmax,
};

}  // namespace moonring::model
