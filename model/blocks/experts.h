#ifndef MOONRING_MODEL_BLOCKS_EXPERTS_H_
#define MOONRING_MODEL_BLOCKS_EXPERTS_H_

// A mixture of gated MLPs (Shazeer et al. 2017, arXiv:1701.06538; Mixtral, Qwen-MoE, DeepSeek):
//
//   y_t = sum_{e in C_t} w_te mlp_e(x_t)  [+ sigmoid(s . x_t) mlp_shared(x_t), or +
//   mlp_shared(x_t)]
//
// or, where the experts see other features than the stream's, z = Win x and
//
//   y_t = Wout sum_{e in C_t} w_te mlp_e(z_t)  + mlp_shared(x_t)
//
// C_t and w_t are router.h's, the experts' products grouped_mlp.h's; grouped_stacks.h's where a GPU
// takes them: then the host waits for nothing here, else for the number of rows of each expert.
//
// Rows are gathered by expert once, each expert runs once on all of its rows (experts in parallel
// where there are several), and each token's results are summed in the order of its choices: the
// result depends on no order of tokens or ranks beyond rounding, and no sum is made by atomics.
// Nothing is dropped, whatever the load.
//
// The experts may lie with several ranks, each of which has some of them side by side (`ranks`):
// then the rows travel to their experts and the results back (comm/bin_exchange.h), and a rank's
// experts see the rows of all. Their gradients are sums over those ranks already; those of the
// router and the shared expert are of this rank's tokens, as without. Every rank calls, with tokens
// or without, and goes backward where one does.
//
// Shapes: T tokens, D features (of z, where there is one), I inside an expert, E experts, K chosen,
// N = T K rows. Cost: the products', and N D numbers twice.

#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/bin_exchange.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"
#include "model/blocks/router.h"
#include "model/config/config.h"

namespace moonring::model {

struct ExpertMaps {
  Projection router;               // [E, D]
  at::Tensor router_correction_E;  // undefined where there is none
  std::vector<GatedMaps> experts;  // E; none where they are stacked. Those of other ranks have no
                                   // numbers
  Projection gate_up, down;        // of all experts that are here (grouped_mlp.h)
  GatedMaps shared;                // undefined where there is none
  Projection input, output;        // of the experts' rows and their results; undefined: none
  Projection shared_switch;        // [1, D]; undefined: it is always on
  at::Tensor scale_E;              // of the chosen ones' weights; undefined: 1
};

struct MixtureResult {
  at::Tensor out_TD;
  RouterTally tally;
};

// x_TD in the matmul dtype. `ranks`: null where all experts are here; `routed_TD`: what the router
// sees in its place. Throws where shapes do not fit, and where an expert of several ranks has an
// adapter.
MixtureResult MixExperts(const ExpertRule& rule, Activation activation, const ExpertMaps& maps,
                         const at::Tensor& x_TD, const RouterGroups& groups,
                         const comm::BinExchange* ranks = nullptr,
                         const at::Tensor& routed_TD = {});

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_EXPERTS_H_
