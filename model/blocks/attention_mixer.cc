#include "model/blocks/attention_mixer.h"

#include <array>
#include <initializer_list>
#include <utility>
#include <vector>

#include <ATen/ops/ones.h>

#include "model/blocks/block_norms.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"

namespace moonring::model {
namespace {

at::Tensor HeadNormed(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& x_THD,
                      int norm) {
  const int64_t width =
      rule.head_norm == HeadNorm::kEachHead ? x_THD.size(2) : x_THD.size(1) * x_THD.size(2);
  return Normed(rule, maps, x_THD.reshape({-1, width}), norm, rule.matmul_dtype)
      .view(x_THD.sizes());
}

// Maps of the rows at attention's entrance. Where no adapter wants them for its own backward the
// normed rows are not kept.
std::vector<at::Tensor> ProjectInput(const BlockRule& rule, const BlockMaps& maps,
                                     const at::Tensor& hidden_TD,
                                     std::initializer_list<int> places) {
  std::vector<at::Tensor> weights, biases, results;
  std::vector<WeightSum> sums;
  bool plain = maps.Has(kInputNorm);
  for (const int place : places) {
    plain = plain && !maps.Map(place).low_rank.has_value();
    weights.push_back(maps.Map(place).weight_OI);
    biases.push_back(maps.Map(place).bias_O);
    sums.push_back(maps.Map(place).sum);
  }
  if (plain)
    return NormedLinear(hidden_TD, NormWeight(rule, maps, kInputNorm), rule.rms_norm_eps, weights,
                        biases, sums);
  const at::Tensor normed_TD = MapInput(rule, maps, hidden_TD, kInputNorm);
  for (const int place : places) results.push_back(Project(maps.Map(place), normed_TD));
  return results;
}

std::array<at::Tensor, 3> QueryKeyValue(const BlockRule& rule, const BlockMaps& maps,
                                        const at::Tensor& hidden_TD) {
  const int64_t rows = hidden_TD.size(0), heads = rule.heads, kv_heads = rule.kv_heads,
                width = rule.head_dim;
  if (!maps.Has(kQueryKeyValue)) {
    if (rule.keys_are_values) {
      const std::vector<at::Tensor> results = ProjectInput(rule, maps, hidden_TD, {kQuery, kKey});
      const at::Tensor k_TKD = results[1].view({rows, kv_heads, width});
      return {results[0].view({rows, heads, width}), k_TKD, k_TKD};
    }
    const std::vector<at::Tensor> results =
        ProjectInput(rule, maps, hidden_TD, {kQuery, kKey, kValue});
    return {results[0].view({rows, heads, width}), results[1].view({rows, kv_heads, width}),
            results[2].view({rows, kv_heads, width})};
  }
  const at::Tensor all = ProjectInput(rule, maps, hidden_TD, {kQueryKeyValue})[0];
  if (rule.qkv_rows == QkvRows::kStacked) {
    const at::Tensor all_THD = all.view({rows, heads + 2 * kv_heads, width});
    return {all_THD.narrow(1, 0, heads), all_THD.narrow(1, heads, kv_heads),
            all_THD.narrow(1, heads + kv_heads, kv_heads)};
  }
  const int64_t queries = heads / kv_heads;  // of a kv head
  const at::Tensor all_TKGD = all.view({rows, kv_heads, queries + 2, width});
  return {all_TKGD.narrow(2, 0, queries).reshape({rows, heads, width}), all_TKGD.select(2, queries),
          all_TKGD.select(2, queries + 1)};
}

at::Tensor Turned(const at::Tensor& x_THD, const Rotary* rotary) {
  return rotary == nullptr ? x_THD : ApplyRotary(x_THD, *rotary);
}

}  // namespace

AttentionMix MixByAttention(const BlockRule& rule, const BlockMaps& maps,
                            const at::Tensor& hidden_TD, const Rotary* rotary, const KeyValue* keys,
                            attention::PlannedAttention& attention,
                            attention::KeptAttention* kept) {
  const auto mix = [&](const at::Tensor& q_THD, KeyValue seen) {
    attention::ScoreRule scores = rule.scores;
    if (maps.Has(kSinks)) scores.sink_H = maps.Norm(kSinks);
    at::Tensor heads_TC = attention.Forward(q_THD, seen.k_TKD, seen.v_TKD, scores, kept)
                              .reshape({hidden_TD.size(0), rule.heads * rule.head_dim});
    return AttentionMix{std::move(heads_TC), std::move(seen)};
  };
  if (keys != nullptr) {
    at::Tensor q_THD = ProjectInput(rule, maps, hidden_TD, {kQuery})[0].view(
        {hidden_TD.size(0), rule.heads, rule.head_dim});
    if (maps.Has(kQueryNorm)) q_THD = HeadNormed(rule, maps, q_THD, kQueryNorm);
    return mix(Turned(q_THD, rotary), *keys);
  }
  auto [q_THD, k_TKD, v_TKD] = QueryKeyValue(rule, maps, hidden_TD);
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
    q_THD = std::move(turned.q_THD);
    k_TKD = std::move(turned.k_TKD);
  }
  return mix(q_THD, {std::move(k_TKD), std::move(v_TKD)});
}

}  // namespace moonring::model
