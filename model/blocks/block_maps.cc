#include "model/blocks/block_maps.h"

namespace moonring::model {

at::ScalarType WeightDtype(int place, at::ScalarType matmul_dtype) {
  return IsWide(place) ? WideDtype(matmul_dtype) : matmul_dtype;
}

BlockMaps::BlockMaps(absl::Span<const at::Tensor> weights, absl::Span<const WeightSum> sums) {
  TORCH_CHECK(weights.size() >= kBlockWeights, "transformer block: ", weights.size(),
              " weights, expected ", static_cast<int>(kBlockWeights), " or more");
  maps_.reserve(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    maps_.push_back({.weight_OI = weights[i],
                     .bias_O = at::Tensor(),
                     .low_rank = std::nullopt,
                     .sum = i < sums.size() ? sums[i] : nullptr});
  }
  for (int place = 0; place < kBlockWeights; ++place) {
    if (IsBias(place)) maps_[MapOfBias(place)].bias_O = weights[place];
  }
}

ExpertMaps BlockMaps::Experts(const ExpertRule& rule) const {
  const auto gated = [&](int gate, int up, int down) {
    return GatedMaps{Map(gate), Map(up), Map(down)};
  };
  ExpertMaps maps;
  maps.router = Map(kRouter);
  maps.router_correction_E = Map(kRouterCorrection).weight_OI;
  maps.shared = gated(kSharedGate, kSharedUp, kSharedDown);
  maps.shared_switch = Map(kSharedSwitch);
  maps.scale_E = Map(kExpertScale).weight_OI;
  maps.input = Map(kExpertsInput);
  maps.output = Map(kExpertsOutput);
  maps.gate_up = Map(kExpertsGateUp);
  maps.gate_up.bias_O = Map(kExpertsGateUpBias).weight_OI;
  maps.down = Map(kExpertsDown);
  maps.down.bias_O = Map(kExpertsDownBias).weight_OI;
  for (int e = 0; e < rule.count && rule.storage == ExpertStorage::kEach; ++e) {
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
    if (map.rotation.has_value()) visit(map.rotation->skew_NE);
    if (!map.low_rank.has_value()) continue;
    visit(map.low_rank->a_RI);
    visit(map.low_rank->b_OR);
    visit(map.low_rank->magnitude_O);
  }
}

BlockMaps BlockMaps::AfterMixer() const {
  BlockMaps after = *this;
  for (int place = 0; place < kBlockWeights; ++place) {
    // The entry of a bias is empty: the bias is stored in its map's entry.
    if (FactsOf(place).feeds_mixer || IsBias(place)) after.maps_[place] = {};
  }
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

}  // namespace moonring::model
