#ifndef MOONRING_MODEL_BLOCKS_EXPERTS_H_
#define MOONRING_MODEL_BLOCKS_EXPERTS_H_

// A mixture of gated MLPs (Shazeer et al. 2017, arXiv:1701.06538; Mixtral, Qwen-MoE, DeepSeek):
//
//   y_t = sum_{e in C_t} w_te mlp_e(x_t)  [+ sigmoid(s . x_t) mlp_shared(x_t), or +
//   mlp_shared(x_t)]
//
// C_t and w_t are router.h's, the experts' products grouped_mlp.h's.
//
// Rows are gathered by expert once, each expert runs once on all of its rows (experts in parallel
// where there are several), and each token's results are summed in the order of its choices: the
// result depends on no order of tokens or ranks beyond rounding, and no sum is made by atomics.
// Nothing is dropped, whatever the load.
//
// Shapes: T tokens, D features, I inside an expert, E experts, K chosen, N = T K rows. Cost: the
// products', and N D numbers twice.

#include <vector>

#include <ATen/core/Tensor.h>

#include "model/blocks/layers.h"
#include "model/blocks/projection.h"
#include "model/blocks/router.h"
#include "model/config/config.h"

namespace moonring::model {

struct GatedMaps {
  Projection gate, up, down;
};

struct ExpertMaps {
  Projection router;               // [E, D]
  at::Tensor router_correction_E;  // undefined where there is none
  std::vector<GatedMaps> experts;  // E; none where they are stacked:
  Projection gate_up, down;        // of all experts (grouped_mlp.h)
  GatedMaps shared;                // undefined where there is none
  Projection shared_switch;        // [1, D]; undefined: it is always on
  at::Tensor scale_E;              // of the chosen ones' weights; undefined: 1
};

struct MixtureResult {
  at::Tensor out_TD;
  RouterTally tally;
};

// x_TD in the matmul dtype; `routed_TD` what the router sees in its place, or undefined. Throws
// where shapes do not fit.
MixtureResult MixExperts(const ExpertRule& rule, Activation activation, const ExpertMaps& maps,
                         const at::Tensor& x_TD, const RouterGroups& groups,
                         const at::Tensor& routed_TD = {});

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_EXPERTS_H_
