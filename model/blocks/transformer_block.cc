#include "model/blocks/transformer_block.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>

#include "model/blocks/row_tiles.h"

namespace moonring::model {
namespace {

// What a rule and weights make of rows, a step at a time.
class Block {
 public:
  Block(const BlockRule& rule, const BlockMaps& maps)
      : rule_(rule), maps_(maps), stream_(StreamDtype(rule.matmul_dtype)) {}

  // What the heads give, side by side.
  at::Tensor Heads(const at::Tensor& hidden_TD, const Rotary* rotary,
                   attention::PlannedAttention& attention, attention::KeptAttention* kept) const {
    auto [q_THD, k_TKD, v_TKD] = QueryKeyValue(hidden_TD);
    if (maps_.Has(kQueryNorm)) {
      q_THD = HeadNormed(q_THD, kQueryNorm);
      k_TKD = HeadNormed(k_TKD, kKeyNorm);
    }
    if (rotary != nullptr) {
      TurnedHeads turned = ApplyRotary(q_THD, k_TKD, *rotary);
      q_THD = std::move(turned.q_THD);
      k_TKD = std::move(turned.k_TKD);
    }
    return attention.Forward(q_THD, k_TKD, v_TKD, rule_.scores, kept)
        .reshape({hidden_TD.size(0), rule_.heads * rule_.head_dim});
  }

  BlockResult AfterAttention(const at::Tensor& hidden_TD, const at::Tensor& heads_TC,
                             const RouterGroups& groups) const {
    const auto [stream_TD, normed_TD] = Joined(hidden_TD, Project(maps_.Map(kOutput), heads_TC));
    if (rule_.experts.count == 0)
      return {AddToStream(stream_TD, GatedMlp(normed_TD), kMlpNorm), {}};
    MixtureResult mixture = MixExperts(rule_.experts, rule_.activation,
                                       maps_.Experts(rule_.experts.count), normed_TD, groups);
    return {AddToStream(stream_TD, std::move(mixture.out_TD), kMlpNorm), std::move(mixture.tally)};
  }

 private:
  // The rows as a map takes them: normed where the norm is there.
  at::Tensor Input(const at::Tensor& stream_TD, int norm) const {
    return maps_.Has(norm) ? Normed(stream_TD, norm, rule_.matmul_dtype)
                           : stream_TD.to(rule_.matmul_dtype);
  }

  // x + r y, y normed first where the norm is there.
  at::Tensor AddToStream(const at::Tensor& x_TD, at::Tensor y_TD, int norm) const {
    return AddRows(x_TD, Residual(std::move(y_TD), norm), rule_.residual_scale);
  }
  at::Tensor Residual(at::Tensor y_TD, int norm) const {
    return maps_.Has(norm) ? Normed(y_TD.to(stream_), norm, stream_) : std::move(y_TD);
  }

  // The stream after attention's part y, and its rows as the MLP takes them.
  SumAndNorm Joined(const at::Tensor& x_TD, at::Tensor y_TD) const {
    y_TD = Residual(std::move(y_TD), kAttentionNorm);
    if (maps_.Has(kMlpInputNorm))
      return AddAndNorm(x_TD, std::move(y_TD), rule_.residual_scale, NormWeight(kMlpInputNorm),
                        rule_.rms_norm_eps, rule_.matmul_dtype);
    const at::Tensor stream_TD = AddRows(x_TD, std::move(y_TD), rule_.residual_scale);
    return {stream_TD, stream_TD.to(rule_.matmul_dtype)};
  }

  at::Tensor GatedMlp(const at::Tensor& normed_TD) const {
    if (!maps_.Has(kGateUp)) {
      const at::Tensor gate_TI = Project(maps_.Map(kGate), normed_TD);
      return ProjectGated(maps_.Map(kDown), gate_TI, Project(maps_.Map(kUp), normed_TD),
                          rule_.activation);
    }
    const at::Tensor both = Project(maps_.Map(kGateUp), normed_TD);
    const int64_t width = both.size(1) / 2;
    return ProjectGated(maps_.Map(kDown), both.narrow(1, 0, width), both.narrow(1, width, width),
                        rule_.activation);
  }

  at::Tensor Normed(const at::Tensor& x_TD, int norm, at::ScalarType result) const {
    return RmsNorm(x_TD, NormWeight(norm), rule_.rms_norm_eps, result);
  }
  at::Tensor NormWeight(int norm) const {
    return rule_.norm_adds_one ? maps_.Norm(norm) + 1 : maps_.Norm(norm);
  }

  at::Tensor HeadNormed(const at::Tensor& x_THD, int norm) const {
    const int64_t width =
        rule_.head_norm == HeadNorm::kEachHead ? x_THD.size(2) : x_THD.size(1) * x_THD.size(2);
    return Normed(x_THD.reshape({-1, width}), norm, rule_.matmul_dtype).view(x_THD.sizes());
  }

  // Maps of the rows at attention's entrance. Where no adapter wants them for its own backward the
  // normed rows are not kept.
  std::vector<at::Tensor> ProjectInput(const at::Tensor& hidden_TD,
                                       std::initializer_list<int> places) const {
    std::vector<at::Tensor> weights, biases, results;
    bool plain = maps_.Has(kInputNorm);
    for (const int place : places) {
      plain = plain && !maps_.Map(place).low_rank.has_value();
      weights.push_back(maps_.Map(place).weight_OI);
      biases.push_back(maps_.Map(place).bias_O);
    }
    if (plain)
      return NormedLinear(hidden_TD, NormWeight(kInputNorm), rule_.rms_norm_eps, weights, biases);
    const at::Tensor normed_TD = Input(hidden_TD, kInputNorm);
    for (const int place : places) results.push_back(Project(maps_.Map(place), normed_TD));
    return results;
  }

  std::array<at::Tensor, 3> QueryKeyValue(const at::Tensor& hidden_TD) const {
    const int64_t rows = hidden_TD.size(0), heads = rule_.heads, kv_heads = rule_.kv_heads,
                  width = rule_.head_dim;
    if (!maps_.Has(kQueryKeyValue)) {
      const std::vector<at::Tensor> results = ProjectInput(hidden_TD, {kQuery, kKey, kValue});
      return {results[0].view({rows, heads, width}), results[1].view({rows, kv_heads, width}),
              results[2].view({rows, kv_heads, width})};
    }
    const at::Tensor all = ProjectInput(hidden_TD, {kQueryKeyValue})[0];
    if (rule_.qkv_rows == QkvRows::kStacked) {
      const at::Tensor all_THD = all.view({rows, heads + 2 * kv_heads, width});
      return {all_THD.narrow(1, 0, heads), all_THD.narrow(1, heads, kv_heads),
              all_THD.narrow(1, heads + kv_heads, kv_heads)};
    }
    const int64_t queries = heads / kv_heads;  // of a kv head
    const at::Tensor all_TKGD = all.view({rows, kv_heads, queries + 2, width});
    return {all_TKGD.narrow(2, 0, queries).reshape({rows, heads, width}),
            all_TKGD.select(2, queries), all_TKGD.select(2, queries + 1)};
  }

  const BlockRule& rule_;
  const BlockMaps& maps_;
  at::ScalarType stream_;
};

// What a row takes in the tiles' backward, about: the features of the MLP five times (gate, up,
// what they make, and the gradients), those of the stream seven.
RowTiles TilesOf(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD,
                 const RouterGroups& groups) {
  const ExpertRule& experts = rule.experts;
  const bool mixture = experts.count > 0, shared = maps.Has(kSharedDown);
  const auto width = [&](int place) { return maps.Map(place).weight_OI.size(1); };
  const int64_t inner =
      (mixture ? experts.chosen * width(ExpertWeightPlace(0, kExpertDown)) : width(kDown)) +
      (shared ? width(kSharedDown) : 0);
  const int64_t outer = hidden_TD.size(1) * (mixture ? 7 + 3 * experts.chosen : 7);
  RowTiles tiles;
  tiles.row_bytes = (5 * inner + outer + rule.heads * rule.head_dim) *
                    static_cast<int64_t>(hidden_TD.element_size());
  if (mixture)
    tiles.least_rows *= std::max<int64_t>(
        1, experts.count / experts.chosen);  // each expert has as many as a dense MLP would
  tiles.shapes = {StandIn(hidden_TD.sizes(), hidden_TD.options())};
  if (mixture && groups.group_T.defined()) {
    const std::vector<int64_t> sizes = {groups.count, experts.count};
    tiles.shapes.push_back(StandIn(sizes, hidden_TD.options()));
    tiles.shapes.push_back(StandIn(sizes, hidden_TD.options().dtype(at::kLong)));
  }
  return tiles;
}

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
  rule.scores.layer = layer;
  rule.residual_scale = config.residual_scale;
  rule.norm_adds_one = config.norm_adds_one;
  rule.head_norm = config.head_norm;
  rule.qkv_rows = config.family->qkv_rows;
  rule.activation = config.activation;
  if (config.layer_rules[layer].experts) rule.experts = config.experts;
  return rule;
}

at::ScalarType WeightDtype(int place, at::ScalarType matmul_dtype) {
  return IsNorm(place) ? StreamDtype(matmul_dtype) : matmul_dtype;
}

BlockMaps::BlockMaps(absl::Span<const at::Tensor> weights) {
  TORCH_CHECK(weights.size() >= kBlockWeights, "transformer block: ", weights.size(),
              " weights, wanted ", static_cast<int>(kBlockWeights), " or more");
  maps_.reserve(weights.size());
  for (const at::Tensor& weight : weights) maps_.push_back({weight, at::Tensor(), std::nullopt});
  for (int bias = kQueryBias; bias < kBlockWeights; ++bias)
    maps_[MapOfBias(bias)].bias_O = weights[bias];
}

ExpertMaps BlockMaps::Experts(int64_t count) const {
  const auto gated = [&](int gate, int up, int down) {
    return GatedMaps{Map(gate), Map(up), Map(down)};
  };
  ExpertMaps maps{Map(kRouter), {}, gated(kSharedGate, kSharedUp, kSharedDown), Map(kSharedSwitch)};
  for (int e = 0; e < count; ++e) {
    maps.experts.push_back(gated(ExpertWeightPlace(e, kExpertGate), ExpertWeightPlace(e, kExpertUp),
                                 ExpertWeightPlace(e, kExpertDown)));
  }
  return maps;
}

template <class Maps, class F>
void BlockMaps::ForEachTensor(Maps& maps, const F& fn) {
  const auto visit = [&](auto& tensor) {
    if (tensor.defined()) fn(tensor);
  };
  for (auto& map : maps) {
    visit(map.weight_OI);
    visit(map.bias_O);
    if (!map.low_rank.has_value()) continue;
    visit(map.low_rank->a_RI);
    visit(map.low_rank->b_OR);
    visit(map.low_rank->magnitude_O);
  }
}

BlockMaps BlockMaps::AfterAttention() const {
  BlockMaps after = *this;
  for (const int place : {kInputNorm, kQuery, kKey, kValue, kQueryKeyValue, kQueryNorm, kKeyNorm})
    after.maps_[place] = {};
  for (int bias = kQueryBias; bias < kBlockWeights; ++bias)
    after.maps_[bias] = {};  // each is with its map
  return after;
}

BlockMaps BlockMaps::OfRows(int64_t begin, int64_t count) const {
  BlockMaps of_rows = *this;
  for (Projection& map : of_rows.maps_) {
    if (!map.low_rank.has_value()) continue;
    at::Tensor& identity_T = map.low_rank->dropout.identity_T;
    if (identity_T.defined()) identity_T = identity_T.narrow(0, begin, count);
  }
  return of_rows;
}

std::vector<at::Tensor> BlockMaps::Tensors() const {
  std::vector<at::Tensor> tensors;
  ForEachTensor(maps_, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

BlockMaps BlockMaps::Of(absl::Span<const at::Tensor> tensors) const {
  BlockMaps other = *this;
  size_t next = 0;
  ForEachTensor(other.maps_, [&](at::Tensor& tensor) { tensor = tensors.at(next++); });
  return other;
}

BlockResult TransformerBlock(const BlockRule& rule, const BlockMaps& maps,
                             const at::Tensor& hidden_TD, const BlockRows& rows,
                             attention::PlannedAttention& attention, const BlockRun& run) {
  const Block block(rule, maps);
  const at::Tensor heads_TC = block.Heads(hidden_TD, rows.rotary, attention, run.kept);
  if (run.tile_bytes == 0) return block.AfterAttention(hidden_TD, heads_TC, rows.router_groups);

  const BlockMaps after = maps.AfterAttention();
  const RowFunction tile = [rule, after, groups = rows.router_groups](
                               absl::Span<const at::Tensor> weights,
                               absl::Span<const at::Tensor> inputs,
                               int64_t begin) -> std::vector<at::Tensor> {
    const int64_t count = inputs[0].size(0);
    const BlockMaps of_tile = after.Of(weights).OfRows(begin, count);
    RouterGroups groups_of_tile = groups;
    if (groups.group_T.defined()) groups_of_tile.group_T = groups.group_T.narrow(0, begin, count);
    BlockResult result = Block(rule, of_tile).AfterAttention(inputs[0], inputs[1], groups_of_tile);
    if (!result.tally.chosen_GE.defined()) return {result.hidden_TD};
    return {result.hidden_TD, result.tally.probability_GE, result.tally.chosen_GE};
  };
  RowTiles tiles = TilesOf(rule, after, hidden_TD, rows.router_groups);
  tiles.tile_bytes = run.tile_bytes;
  tiles.values = run.values;
  tiles.gradient_is_free = run.gradient_is_free;
  std::vector<at::Tensor> results = RunInTiles(tile, after.Tensors(), {hidden_TD, heads_TC}, tiles);
  if (results.size() == 1) return {std::move(results[0]), {}};
  return {std::move(results[0]), {std::move(results[1]), std::move(results[2])}};
}

}  // namespace moonring::model
