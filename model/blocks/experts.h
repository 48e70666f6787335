#ifndef MOONRING_MODEL_BLOCKS_EXPERTS_H_
#define MOONRING_MODEL_BLOCKS_EXPERTS_H_

// A mixture of gated MLPs (Shazeer et al. 2017, arXiv:1701.06538; Mixtral, Qwen-MoE):
//
//   p_t = softmax(Wr x_t);  C_t = the `chosen` experts of the largest p_t;  w_te = p_te, or p_te /
//       sum_C p_t where normalised
//   y_t = sum_{e in C_t} w_te mlp_e(x_t)  [+ sigmoid(s . x_t) mlp_shared(x_t)]
//
// Rows are gathered by expert once, each expert runs once on all of its rows (experts in parallel
// where there are several), and each token's results are summed in the order of its choices: the
// result depends on no order of tokens or ranks beyond rounding, and no sum is made by atomics.
// Nothing is dropped, whatever the load.
//
// Shapes: T tokens, D features, I inside an expert, E experts, K chosen, N = T K rows, G groups.
// The router's softmax is in the stream's dtype. Cost: 6 N D I flops forward, 12 backward; memory N
// (D + 2 I) kept for the backward, and as much again at work.
//
// The load-balancing loss (Fedus et al. 2021, arXiv:2101.03961, eq. 4, as Transformers'
// load_balancing_loss_func has it) of a group g of tokens is
//
//   E sum_e f_ge P_ge,   f_ge = (choices of e by g's tokens, over all layers) / n,   P_ge = (sum of
//       p_te over them) / n,   n = layers x tokens
//
// What a block adds to both sums is its tally: sums over this rank's tokens, which may be added
// over layers, micro-batches and ranks.

#include <vector>

#include <ATen/core/Tensor.h>

#include "model/blocks/layers.h"
#include "model/blocks/projection.h"
#include "model/config/config.h"

namespace moonring::model {

struct GatedMaps {
  Projection gate, up, down;
};

struct ExpertMaps {
  Projection router;               // [E, D]
  std::vector<GatedMaps> experts;  // E
  GatedMaps shared;                // undefined where there is none
  Projection shared_switch;        // [1, D]
};

// Which group a token is counted in.
struct RouterGroups {
  at::Tensor group_T;  // int64; undefined: nothing is tallied
  int64_t count = 0;   // G
};

struct RouterTally {
  at::Tensor probability_GE;  // sums of p; differentiable
  at::Tensor chosen_GE;       // int64: how often each was chosen
};

struct MixtureResult {
  at::Tensor out_TD;
  RouterTally tally;
};

// x_TD in the matmul dtype. Throws where shapes do not fit.
MixtureResult MixExperts(const ExpertRule& rule, Activation activation, const ExpertMaps& maps,
                         const at::Tensor& x_TD, const RouterGroups& groups);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_EXPERTS_H_
