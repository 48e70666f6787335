#include "model/blocks/latent_mixer.h"

#include <utility>
#include <vector>

#include <ATen/ops/cat.h>

#include "model/blocks/block_norms.h"
#include "model/blocks/input_maps.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"

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

}  // namespace

at::Tensor MixByLatent(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD,
                       const Rotary* rotary, attention::PlannedAttention& attention,
                       attention::KeptAttention* kept) {
  const LatentRule& latent = rule.latent;
  const int64_t rows = hidden_TD.size(0), heads = rule.heads, plain = latent.plain_dim,
                turning = latent.rotary_dim, value = latent.value_dim;
  const int query = maps.Has(kQueryDown) ? kQueryDown : kQuery;
  std::vector<at::Tensor> made = ProjectInput(rule, maps, hidden_TD, {query, kKeyValueDown});
  at::Tensor q_THD = std::move(made[0]);
  if (query == kQueryDown) q_THD = FromLatent(rule, maps, q_THD, kQueryDownNorm, kQueryUp);
  q_THD = q_THD.view({rows, heads, plain + turning});

  // Uses split instead of several slices, because the backward of split allocates only one tensor.
  const std::vector<at::Tensor> latent_and_key =
      made[1].split_with_sizes({latent.key_value_rank, turning}, 1);
  at::Tensor shared_T1D = latent_and_key[1].unsqueeze(1);
  const std::vector<at::Tensor> keys_and_values =
      FromLatent(rule, maps, latent_and_key[0].contiguous(), kKeyValueDownNorm, kKeyValueUp)
          .view({rows, heads, plain + value})
          .split_with_sizes({plain, value}, 2);
  if (rotary != nullptr) {
    const std::vector<at::Tensor> parts = q_THD.split_with_sizes({plain, turning}, 2);
    TurnedHeads turned = ApplyRotary(parts[1], shared_T1D, *rotary);
    q_THD = at::cat({parts[0], turned.q_THD}, 2);
    shared_T1D = std::move(turned.k_TKD);
  }
  const at::Tensor k_THD =
      at::cat({keys_and_values[0], shared_T1D.expand({rows, heads, turning})}, 2);
  // Makes a copy: a view of the map's result would also keep the keys' half of it in memory.
  const at::Tensor v_THV = keys_and_values[1].contiguous();
  return attention.Forward(q_THD, k_THD, v_THV, rule.scores, kept).reshape({rows, heads * value});
}

}  // namespace moonring::model
