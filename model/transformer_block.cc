#include "model/transformer_block.h"

#include <array>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>

namespace moonring::model {
namespace {

// What a rule and weights make of rows, a step at a time.
class Block {
 public:
  Block(const BlockRule& rule, const BlockMaps& maps) : rule_(rule), maps_(maps), stream_(StreamDtype(rule.matmul_dtype)) {}

  // The rows as a map takes them: normed where the norm is there.
  at::Tensor Input(const at::Tensor& stream_TD, int norm) const {
    return maps_.Has(norm) ? Normed(stream_TD, norm, rule_.matmul_dtype) : stream_TD.to(rule_.matmul_dtype);
  }

  // x + r y, y normed first where the norm is there. Where y is a fresh tensor of that dtype the sum is made in it: no backward needs y.
  at::Tensor AddToStream(const at::Tensor& x_TD, at::Tensor y_TD, int norm) const {
    if (maps_.Has(norm)) y_TD = Normed(y_TD.to(stream_), norm, stream_);
    if (rule_.residual_scale != 1.0) return at::add(x_TD, y_TD, rule_.residual_scale);
    return y_TD.scalar_type() == x_TD.scalar_type() ? y_TD.add_(x_TD) : at::add(x_TD, y_TD);
  }

  at::Tensor SelfAttention(const at::Tensor& normed_TD, const Rotary* rotary, attention::PlannedAttention& attention, attention::KeptAttention* kept) const {
    auto [q_THD, k_TKD, v_TKD] = QueryKeyValue(normed_TD);
    if (maps_.Has(kQueryNorm)) {
      q_THD = HeadNormed(q_THD, kQueryNorm);
      k_TKD = HeadNormed(k_TKD, kKeyNorm);
    }
    if (rotary != nullptr) {
      q_THD = ApplyRotary(q_THD, *rotary);
      k_TKD = ApplyRotary(k_TKD, *rotary);
    }
    const at::Tensor out_THD = attention.Forward(q_THD, k_TKD, v_TKD, rule_.scores, kept);
    return Project(maps_.Map(kOutput), out_THD.reshape({normed_TD.size(0), rule_.heads * rule_.head_dim}));
  }

  at::Tensor GatedMlp(const at::Tensor& normed_TD) const {
    if (!maps_.Has(kGateUp)) {
      const at::Tensor gate_TI = Project(maps_.Map(kGate), normed_TD);
      return ProjectGated(maps_.Map(kDown), gate_TI, Project(maps_.Map(kUp), normed_TD), rule_.activation);
    }
    const at::Tensor both = Project(maps_.Map(kGateUp), normed_TD);
    const int64_t width = both.size(1) / 2;
    return ProjectGated(maps_.Map(kDown), both.narrow(1, 0, width), both.narrow(1, width, width), rule_.activation);
  }

 private:
  at::Tensor Normed(const at::Tensor& x_TD, int norm, at::ScalarType result) const {
    const at::Tensor& weight = maps_.Norm(norm);
    return RmsNorm(x_TD, rule_.norm_adds_one ? weight + 1 : weight, rule_.rms_norm_eps, result);
  }

  at::Tensor HeadNormed(const at::Tensor& x_THD, int norm) const {
    const int64_t width = rule_.head_norm == HeadNorm::kEachHead ? x_THD.size(2) : x_THD.size(1) * x_THD.size(2);
    return Normed(x_THD.reshape({-1, width}).to(stream_), norm, rule_.matmul_dtype).view(x_THD.sizes());
  }

  std::array<at::Tensor, 3> QueryKeyValue(const at::Tensor& normed_TD) const {
    const int64_t rows = normed_TD.size(0), heads = rule_.heads, kv_heads = rule_.kv_heads, width = rule_.head_dim;
    if (!maps_.Has(kQueryKeyValue)) {
      return {Project(maps_.Map(kQuery), normed_TD).view({rows, heads, width}), Project(maps_.Map(kKey), normed_TD).view({rows, kv_heads, width}),
              Project(maps_.Map(kValue), normed_TD).view({rows, kv_heads, width})};
    }
    const at::Tensor all = Project(maps_.Map(kQueryKeyValue), normed_TD);
    if (rule_.qkv_rows == QkvRows::kStacked) {
      const at::Tensor all_THD = all.view({rows, heads + 2 * kv_heads, width});
      return {all_THD.narrow(1, 0, heads), all_THD.narrow(1, heads, kv_heads), all_THD.narrow(1, heads + kv_heads, kv_heads)};
    }
    const int64_t queries = heads / kv_heads;  // of a kv head
    const at::Tensor all_TKGD = all.view({rows, kv_heads, queries + 2, width});
    return {all_TKGD.narrow(2, 0, queries).reshape({rows, heads, width}), all_TKGD.select(2, queries), all_TKGD.select(2, queries + 1)};
  }

  const BlockRule& rule_;
  const BlockMaps& maps_;
  at::ScalarType stream_;
};

}  // namespace

BlockRule BlockRuleOf(const ModelConfig& config, int64_t layer, at::ScalarType matmul_dtype) {
  BlockRule rule;
  rule.heads = config.heads;
  rule.kv_heads = config.kv_heads;
  rule.head_dim = config.head_dim;
  rule.rms_norm_eps = config.rms_norm_eps;
  rule.matmul_dtype = matmul_dtype;
  rule.scores.scale = config.score_scale;
  rule.scores.softcap = config.score_softcap;
  rule.scores.window = config.layer_rules[layer].window;
  rule.residual_scale = config.residual_scale;
  rule.norm_adds_one = config.norm_adds_one;
  rule.head_norm = config.head_norm;
  rule.qkv_rows = config.family->qkv_rows;
  rule.activation = config.activation;
  if (config.layer_rules[layer].experts) rule.experts = config.experts;
  return rule;
}

at::ScalarType WeightDtype(int place, at::ScalarType matmul_dtype) { return IsNorm(place) ? StreamDtype(matmul_dtype) : matmul_dtype; }

BlockMaps::BlockMaps(absl::Span<const at::Tensor> weights) {
  TORCH_CHECK(weights.size() >= kBlockWeights, "transformer block: ", weights.size(), " weights, wanted ", static_cast<int>(kBlockWeights), " or more");
  maps_.reserve(weights.size());
  for (const at::Tensor& weight : weights) maps_.push_back({weight, at::Tensor(), std::nullopt});
  for (int bias = kQueryBias; bias < kBlockWeights; ++bias) maps_[MapOfBias(bias)].bias_O = weights[bias];
}

ExpertMaps BlockMaps::Experts(int64_t count) const {
  const auto gated = [&](int gate, int up, int down) { return GatedMaps{Map(gate), Map(up), Map(down)}; };
  ExpertMaps maps{Map(kRouter), {}, gated(kSharedGate, kSharedUp, kSharedDown), Map(kSharedSwitch)};
  for (int e = 0; e < count; ++e) {
    maps.experts.push_back(gated(ExpertWeightPlace(e, kExpertGate), ExpertWeightPlace(e, kExpertUp), ExpertWeightPlace(e, kExpertDown)));
  }
  return maps;
}

BlockResult TransformerBlock(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD, const BlockRows& rows,
                             attention::PlannedAttention& attention, attention::KeptAttention* kept) {
  const Block block(rule, maps);
  at::Tensor stream_TD = block.AddToStream(hidden_TD, block.SelfAttention(block.Input(hidden_TD, kInputNorm), rows.rotary, attention, kept), kAttentionNorm);
  const at::Tensor normed_TD = block.Input(stream_TD, kMlpInputNorm);
  if (rule.experts.count == 0) return {block.AddToStream(stream_TD, block.GatedMlp(normed_TD), kMlpNorm), {}};
  MixtureResult mixture = MixExperts(rule.experts, rule.activation, maps.Experts(rule.experts.count), normed_TD, rows.router_groups);
  return {block.AddToStream(stream_TD, std::move(mixture.out_TD), kMlpNorm), std::move(mixture.tally)};
}

}  // namespace moonring::model
