#ifndef MOONRING_MODEL_BLOCKS_EXPERTS_H_
#define MOONRING_MODEL_BLOCKS_EXPERTS_H_

// A mixture of gated MLPs (Shazeer et al. 2017, arXiv:1701.06538; Mixtral, Qwen-MoE, DeepSeek):
//
//   y_t = sum_{e in C_t} w_te mlp_e(x_t)  [+ sigmoid(s . x_t) mlp_shared(x_t),
//                                          or + mlp_shared(x_t)]
//
// or, if the experts work in another feature space than the stream's, z = Win x and
//
//   y_t = Wout sum_{e in C_t} w_te mlp_e(z_t)  + mlp_shared(x_t)
//
// C_t and w_t are computed by router.h, the experts' products by grouped_mlp.h, or by
// grouped_stacks.h if a GPU supports them. With grouped_stacks.h the host never waits for the
// device here; otherwise it waits for the number of rows of each expert.
//
// Rows are gathered by expert once, each expert runs once on all of its rows (in parallel if there
// are several), and each token's results are summed in the order of its choices. So the result does
// not depend on the order of tokens or ranks beyond rounding, and no atomics are used. No token is
// dropped, whatever the load.
//
// With expert parallelism (`ranks`), each rank has a contiguous range of experts. Rows are sent to
// their experts and the results back (comm/bin_exchange.h), so a rank's experts see the rows of all
// ranks. The experts' gradients are then already summed over those ranks; those of the router and
// the shared expert come from this rank's tokens only, as without expert parallelism. Every rank
// must call, with or without tokens, and run backward if any rank does.
//
// Shapes: T tokens, D features (of z, if there is one), I inside an expert, E experts, K chosen, N
// = T K rows. Cost: the products, plus 2 N D numbers of memory.

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
  at::Tensor router_correction_E;  // undefined: none
  // E of them; empty if the experts are stacked. Weights of other ranks' experts are empty.
  std::vector<GatedMaps> experts;
  Projection gate_up, down;  // stacked weights of the local experts (grouped_mlp.h)
  GatedMaps shared;          // undefined: none
  Projection input, output;  // maps x to z, and the experts' sum back; undefined: none
  Projection shared_switch;  // [1, D]; undefined: the shared expert is not gated
  at::Tensor scale_E;        // scales the chosen experts' weights; undefined: 1
};

struct MixtureResult {
  at::Tensor out_TD;
  RouterTally tally;
};

// x_TD in the matmul dtype. `ranks`: null if all experts are local. `routed_TD`: the router's input
// if it is not x_TD. Throws if shapes do not fit, or if an expert has an adapter under expert
// parallelism.
MixtureResult MixExperts(const ExpertRule& rule, Activation activation, const ExpertMaps& maps,
                         const at::Tensor& x_TD, const RouterGroups& groups,
                         const comm::BinExchange* ranks = nullptr,
                         const at::Tensor& routed_TD = {});

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_EXPERTS_H_
