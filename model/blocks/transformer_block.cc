#include "model/blocks/transformer_block.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>

#include "model/blocks/block_norms.h"
#include "model/blocks/row_tiles.h"
#include "model/config/mixer.h"

namespace moonring::model {
namespace {

MixerOutput Mix(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD,
                const BlockRows& rows, attention::PlannedAttention& attention,
                attention::KeptAttention* kept) {
  if (rule.mixer == nullptr) return {};
  TORCH_CHECK(rule.mixer->cache != MixerCache::kState || rows.mixing != nullptr,
              "transformer block: layer ", rule.scores.layer,
              " is not softmax attention, and the forward was given no mixing for it");
  return rule.mixer->run(rule, maps, hidden_TD, rows, attention, kept);
}

// The steps of a block after the mixer.
class Block {
 public:
  Block(const BlockRule& rule, const BlockMaps& maps)
      : rule_(rule),
        maps_(maps),
        stream_(rule.stream_dtype.value_or(WideDtype(rule.matmul_dtype))) {}

  BlockResult AfterMixer(const at::Tensor& hidden_TD, const at::Tensor& heads_TC,
                         const at::Tensor& layer_input_TP, const RouterGroups& groups,
                         const comm::BinExchange* expert_ranks = nullptr) const {
    const auto [stream_TD, normed_TD] = Joined(hidden_TD, heads_TC);
    if (!rule_.mlp) return {Finished(stream_TD, layer_input_TP)};
    if (rule_.experts.count == 0)
      return {Finished(AddToStream(stream_TD, DenseMlp(normed_TD), kMlpNorm), layer_input_TP)};
    MixtureResult mixture =
        rule_.experts.beside_dense
            ? DenseAndExperts(stream_TD, normed_TD, groups, expert_ranks)
            : MixExperts(rule_.experts, rule_.activation, maps_.Experts(rule_.experts), normed_TD,
                         groups, expert_ranks);
    return {Finished(AddToStream(stream_TD, std::move(mixture.out_TD), kMlpNorm), layer_input_TP),
            {},
            std::move(mixture.tally)};
  }

 private:
  // Returns x + r y, where y is normalised first if the block has the norm with index `norm`.
  at::Tensor AddToStream(const at::Tensor& x_TD, at::Tensor y_TD, int norm) const {
    return AddRows(x_TD, Residual(std::move(y_TD), norm), rule_.residual_scale);
  }
  at::Tensor Residual(at::Tensor y_TD, int norm) const {
    return maps_.Has(norm) ? Normed(rule_, maps_, y_TD.to(stream_), norm, stream_)
                           : std::move(y_TD);
  }

  // Returns the residual stream after adding the mixer's output, and the MLP's input if there is an
  // MLP.
  SumAndNorm Joined(const at::Tensor& x_TD, const at::Tensor& heads_TC) const {
    if (rule_.mixer == nullptr) return {x_TD, MapInput(rule_, maps_, x_TD, kMlpInputNorm)};
    at::Tensor y_TD = Residual(Project(maps_.Map(rule_.mixer->output), heads_TC), kAttentionNorm);
    if (!rule_.mlp) return {AddRows(x_TD, std::move(y_TD), rule_.residual_scale), {}};
    if (maps_.Has(kMlpInputNorm))
      return AddAndNorm(x_TD, std::move(y_TD), rule_.residual_scale,
                        NormWeight(rule_, maps_, kMlpInputNorm), rule_.rms_norm_eps,
                        rule_.matmul_dtype);
    const at::Tensor stream_TD = AddRows(x_TD, std::move(y_TD), rule_.residual_scale);
    return {stream_TD, stream_TD.to(rule_.matmul_dtype)};
  }

  // Returns the block's output, given the residual stream after the MLP.
  at::Tensor Finished(at::Tensor x_TD, const at::Tensor& layer_input_TP) const {
    if (layer_input_TP.defined()) {
      const at::Tensor gate_TP = Project(maps_.Map(kLayerInputGate), x_TD.to(rule_.matmul_dtype));
      x_TD = AddToStream(x_TD,
                         ProjectGated(maps_.Map(kLayerInputMap), gate_TP,
                                      layer_input_TP.to(rule_.matmul_dtype), rule_.activation),
                         kLayerInputNorm);
    }
    if (maps_.Has(kLayerScale)) x_TD = (x_TD * maps_.Norm(kLayerScale)).to(stream_);
    return x_TD;
  }

  MixtureResult DenseAndExperts(const at::Tensor& stream_TD, const at::Tensor& normed_TD,
                                const RouterGroups& groups,
                                const comm::BinExchange* expert_ranks) const {
    if (!maps_.Has(kRouterScale)) {
      MixtureResult mixture =
          MixExperts(rule_.experts, rule_.activation, maps_.Experts(rule_.experts), normed_TD,
                     groups, expert_ranks);
      mixture.out_TD = mixture.out_TD + DenseMlp(normed_TD);
      return mixture;
    }
    const double root = 1.0 / std::sqrt(static_cast<double>(stream_TD.size(1)));
    const at::Tensor routed_TD =
        RmsNorm(stream_TD, maps_.Norm(kRouterScale) * root, rule_.rms_norm_eps, rule_.matmul_dtype);
    MixtureResult mixture =
        MixExperts(rule_.experts, rule_.activation, maps_.Experts(rule_.experts),
                   Normed(rule_, maps_, stream_TD, kExpertsInputNorm, rule_.matmul_dtype), groups,
                   expert_ranks, routed_TD);
    mixture.out_TD =
        Residual(DenseMlp(normed_TD), kDenseNorm) + Residual(mixture.out_TD, kExpertsNorm);
    return mixture;
  }

  at::Tensor DenseMlp(const at::Tensor& normed_TD) const {
    if (!maps_.Has(kGateUp)) {
      return RunMlp({maps_.Map(kGate), maps_.Map(kUp), maps_.Map(kDown)}, normed_TD,
                    rule_.activation);
    }
    const at::Tensor both = Project(maps_.Map(kGateUp), normed_TD);
    const int64_t width = both.size(1) / 2;
    return ProjectGated(maps_.Map(kDown), both.narrow(1, 0, width), both.narrow(1, width, width),
                        rule_.activation);
  }

  const BlockRule& rule_;
  const BlockMaps& maps_;
  at::ScalarType stream_;
};

// The tiling of the steps after the mixer. The memory of a row in a tile's backward is estimated as
// five times the MLP's features (gate, up, their product, and gradients) plus seven times the
// features of the stream.
RowTiles TilesOf(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD,
                 const RouterGroups& groups, const BlockRun& run) {
  const ExpertRule& experts = rule.experts;
  const bool mixture = experts.count > 0, shared = maps.Has(kSharedDown);
  const auto width = [&](int place) { return maps.Map(place).weight_OI.size(1); };
  const bool dense = maps.Has(kDown);
  const int64_t inner = (mixture ? experts.chosen * experts.intermediate : 0) +
                        (dense ? width(kDown) : 0) + (shared ? width(kSharedDown) : 0);
  const int64_t given = rule.mixer == nullptr ? 0 : width(rule.mixer->output);
  const int64_t outer = hidden_TD.size(1) * (mixture ? 7 + 3 * experts.chosen : 7);
  RowTiles tiles{
      .tile_bytes = run.tile_bytes, .values = run.values, .gradient_is_free = run.gradient_is_free};
  tiles.row_bytes = (5 * inner + outer + given) * static_cast<int64_t>(hidden_TD.element_size());
  const int64_t asked = run.tile_rows == 0 ? LeastTileRows(hidden_TD.device()) : run.tile_rows;
  // With experts, the minimum number of rows is increased so that each expert gets on average as
  // many rows as a dense MLP on a CPU needs.
  const int64_t each = mixture ? std::max<int64_t>(1, experts.count / experts.chosen) : 1;
  tiles.least_rows = std::max(asked, std::min(asked, LeastTileRows(at::kCPU)) * each);
  tiles.shapes = {StandIn(hidden_TD.sizes(), hidden_TD.options())};
  if (mixture && groups.group_T.defined()) {
    const std::vector<int64_t> sizes = {groups.count, experts.count};
    tiles.shapes.push_back(StandIn(sizes, hidden_TD.options()));
    tiles.shapes.push_back(StandIn(sizes, hidden_TD.options().dtype(at::kLong)));
  }
  return tiles;
}

}  // namespace

BlockResult TransformerBlock(const BlockRule& rule, const BlockMaps& maps,
                             const at::Tensor& hidden_TD, const BlockRows& rows,
                             attention::PlannedAttention& attention, const BlockRun& run) {
  MixerOutput mix = Mix(rule, maps, hidden_TD, rows, attention, run.kept);
  KeyValue keys = rule.hands_on_keys ? std::move(mix.keys) : KeyValue();
  const bool travels =
      rule.experts.count > 0 && rows.expert_ranks != nullptr && !rows.expert_ranks->alone();
  if (run.tile_bytes == 0 || travels) {
    BlockResult result = Block(rule, maps)
                             .AfterMixer(hidden_TD, mix.heads_TC, rows.layer_input_TP,
                                         rows.router_groups, rows.expert_ranks);
    result.keys = std::move(keys);
    return result;
  }

  const BlockMaps after = maps.AfterMixer();
  const RowFunction tile = [rule, after, groups = rows.router_groups](
                               absl::Span<const at::Tensor> weights,
                               absl::Span<const at::Tensor> inputs,
                               int64_t begin) -> std::vector<at::Tensor> {
    const int64_t count = inputs[0].size(0);
    const BlockMaps of_tile = after.Of(weights).OfRows(begin, count);
    RouterGroups groups_of_tile = groups;
    if (groups.group_T.defined()) groups_of_tile.group_T = groups.group_T.narrow(0, begin, count);
    const size_t besides = rule.mixer == nullptr ? 1 : 2;
    BlockResult result =
        Block(rule, of_tile)
            .AfterMixer(inputs[0], besides > 1 ? inputs[1] : at::Tensor(),
                        inputs.size() > besides ? inputs[besides] : at::Tensor(), groups_of_tile);
    if (!result.tally.chosen_GE.defined()) return {result.hidden_TD};
    return {result.hidden_TD, result.tally.probability_GE, result.tally.chosen_GE};
  };
  const RowTiles tiles = TilesOf(rule, after, hidden_TD, rows.router_groups, run);
  std::vector<at::Tensor> inputs = {hidden_TD};
  if (mix.heads_TC.defined()) inputs.push_back(mix.heads_TC);
  if (rows.layer_input_TP.defined()) inputs.push_back(rows.layer_input_TP);
  std::vector<at::Tensor> results = RunInTiles(tile, after.Tensors(), inputs, tiles);
  if (results.size() == 1) return {std::move(results[0]), std::move(keys), {}};
  return {std::move(results[0]), std::move(keys), {std::move(results[1]), std::move(results[2])}};
}

}  // namespace moonring::model
