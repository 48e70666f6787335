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
// mlp_e is expert e's MLP, s a weight vector. C_t, the experts chosen for token t, and their
// weights w_t are computed by router.h. The experts' matrix products are computed by
// grouped_stacks.h if the GPU supports grouped products, otherwise by grouped_mlp.h. With
// grouped_mlp.h the CPU waits for the GPU to report the number of rows of each expert; with
// grouped_stacks.h it never waits.
//
// Rows are gathered by expert once, each expert runs once on all of its rows (in parallel if there
// are several), and each token's results are summed in the order of its choices. So the order of
// tokens or ranks changes the result by rounding only, and no atomics are used. No token is
// dropped, however many tokens choose one expert.
//
// With expert parallelism (`ranks`), each rank has a contiguous range of experts. Rows are sent to
// their experts and the results back (comm/bin_exchange.h), so a rank's experts see the rows of all
// ranks. The experts' gradients are then already summed over those ranks. The gradients of the
// router and of the shared expert come from this rank's tokens only, as they do without expert
// parallelism. Every rank must call MixExperts, also with zero tokens, and must run backward if any
// rank does.
//
// Shapes: T tokens, D features (of z, if there is one), I hidden features of an expert, E experts,
// K experts chosen per token, N = T K rows. Cost: the matrix products, plus 2 N D numbers of
// memory.

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
  // One entry per expert; the list is empty if the experts are stacked. The weights of experts that
  // other ranks have are empty tensors.
  std::vector<GatedMaps> experts;
  Projection gate_up, down;  // stacked weights of the local experts (grouped_mlp.h)
  GatedMaps shared;          // undefined: none
  Projection input, output;  // Win and Wout; undefined: the experts work on x
  Projection shared_switch;  // [1, D]; undefined: the shared expert is not gated
  at::Tensor scale_E;        // scales the chosen experts' weights; undefined: 1
};

struct MixtureResult {
  at::Tensor out_TD;
  RouterTally tally;
};

// x_TD is in the matmul dtype. `ranks` are the ranks that share the experts; null: all experts are
// local. `routed_TD` is the router's input if that is not x_TD. Throws if shapes do not fit, or if
// an expert has an adapter under expert parallelism.
MixtureResult MixExperts(const ExpertRule& rule, Activation activation, const ExpertMaps& maps,
                         const at::Tensor& x_TD, const RouterGroups& groups,
                         const comm::BinExchange* ranks = nullptr,
                         const at::Tensor& routed_TD = {});

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_EXPERTS_H_
