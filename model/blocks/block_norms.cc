#include "model/blocks/block_norms.h"

#include <ATen/TensorOperators.h>

#include "model/blocks/layers.h"

namespace moonring::model {

at::Tensor NormWeight(const BlockRule& rule, const BlockMaps& maps, int norm) {
  return rule.norm_adds_one ? maps.Norm(norm) + 1 : maps.Norm(norm);
}

at::Tensor Normed(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& x_TD, int norm,
                  at::ScalarType result) {
  return RmsNorm(x_TD, NormWeight(rule, maps, norm), rule.rms_norm_eps, result);
}

at::Tensor MapInput(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& stream_TD,
                    int norm) {
  return maps.Has(norm) ? Normed(rule, maps, stream_TD, norm, rule.matmul_dtype)
                        : stream_TD.to(rule.matmul_dtype);
}

}  // namespace moonring::model
