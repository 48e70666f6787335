#ifndef MOONRING_MODEL_BLOCKS_ROUTER_H_
#define MOONRING_MODEL_BLOCKS_ROUTER_H_

// Which experts a token goes to, and with what weights:
//
//   softmax   p_t = softmax(Wr x_t + b);  C_t = the K experts of the largest p_t
//   sigmoid   p_t = sigmoid(Wr x_t + b);  C_t = the K experts of the largest p_t + c, of the
//   token's
//       best groups alone (DeepSeek-V3, arXiv:2412.19437, section 2.1.2)
//
//   w_te = scale p_te, or scale p_te / sum_C p_t where normalised
//
// c is a number an expert that no gradient reaches. A group is E / groups experts side by side; as
// good as the sum of its two largest p_t + c. Experts of other groups are never chosen
// (Transformers 4 gives them p + c = 0, which is the same where the chosen groups have K above
// that).
//
// Shapes: T tokens, E experts, K chosen, N = T K rows, G groups of tokens. Softmax and sigmoid are
// in the stream's dtype, and so is the product where the rule says so.
//
// The load-balancing loss (Fedus et al. 2021, arXiv:2101.03961, eq. 4, as Transformers'
// load_balancing_loss_func has it) of a group g of tokens is
//
//   E sum_e f_ge P_ge,   f_ge = (choices of e by g's tokens, over all layers) / n,   P_ge = (sum of
//       p_te over them) / n,   n = layers x tokens
//
// With sigmoid p_t is divided by its sum there (arXiv:2412.19437, eq. 19). What a block adds to
// both sums is its tally: sums over this rank's tokens, which may be added over layers,
// micro-batches and ranks.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/blocks/projection.h"
#include "model/config/config.h"

namespace moonring::model {

// Rows gathered by expert: expert e has rows [begin[e], begin[e + 1]).
using ExpertOffsets = std::vector<int64_t>;

// The tokens' choices, and the rows that they make.
struct Routing {
  at::Tensor probability_TE;  // in the stream's dtype; sums to 1
  at::Tensor chosen_TK;       // int64
  at::Tensor weight_TK;       // in the stream's dtype
  at::Tensor token_N;         // int64: whose row, by expert
  at::Tensor row_N;    // int64: where the k-th choice of token t, number t K + k, is among the rows
  at::Tensor count_E;  // int64: rows of each expert
};

// `correction_E` is c, in the wide dtype; undefined: 0.
Routing Route(const ExpertRule& rule, const Projection& router, const at::Tensor& correction_E,
              const at::Tensor& x_TD);

// The experts' rows, for the host: E + 1. Cost: on a GPU it waits for the counts.
ExpertOffsets HostOffsets(const Routing& routing);

// Which group a token is counted in.
struct RouterGroups {
  at::Tensor group_T;  // int64; undefined: nothing is tallied
  int64_t count = 0;   // G
};

struct RouterTally {
  at::Tensor probability_GE;  // sums of p; differentiable
  at::Tensor chosen_GE;       // int64: how often each was chosen
};

RouterTally Tally(const Routing& routing, const RouterGroups& groups);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_ROUTER_H_
