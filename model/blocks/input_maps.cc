#include "model/blocks/input_maps.h"

#include "model/blocks/block_norms.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"

namespace moonring::model {

std::vector<at::Tensor> ProjectInput(const BlockRule& rule, const BlockMaps& maps,
                                     const at::Tensor& hidden_TD, absl::Span<const int> places) {
  std::vector<at::Tensor> weights, biases, results;
  std::vector<WeightSum> sums;
  bool plain = maps.Has(kInputNorm);
  for (const int place : places) {
    plain = plain && !maps.Map(place).adapted();
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

}  // namespace moonring::model
