#ifndef MOONRING_MODEL_BLOCKS_ROUTER_H_
#define MOONRING_MODEL_BLOCKS_ROUTER_H_

// The router of a mixture: which experts process a token, and with what weights:
//
//   softmax   p_t = softmax(Wr x_t + b);  C_t = the K experts of the largest p_t
//   sigmoid   p_t = sigmoid(Wr x_t + b);  C_t = the K experts of the largest p_t + c, only from the
//             token's best groups (DeepSeek-V3, arXiv:2412.19437, section 2.1.2)
//
//   w_te = scale p_te, or scale p_te / sum_C p_t if normalised
//
// c is a correction per expert without a gradient. A group is E / groups consecutive experts; its
// score is the sum of its two largest p_t + c. Experts of other groups are never chosen
// (Transformers 4 sets their p + c to 0, which is the same if the chosen groups have K experts
// above that).
//
// Shapes: T tokens, E experts, K chosen, N = T K rows, G groups of tokens. Softmax and sigmoid are
// in the stream's dtype, and so is the product Wr x if the rule says so.
//
// The load-balancing loss (Fedus et al. 2021, arXiv:2101.03961, eq. 4, as in Transformers'
// load_balancing_loss_func) of a group g of tokens is
//
//   E sum_e f_ge P_ge,   f_ge = (choices of e by g's tokens, over all layers) / n,   P_ge = (sum of
//       p_te over them) / n,   n = layers x tokens
//
// With sigmoid, p_t is divided by its sum in this loss (arXiv:2412.19437, eq. 19). A block's
// contribution to both sums is its tally: sums over this rank's tokens, which may be added over
// layers, micro-batches and ranks.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/blocks/projection.h"
#include "model/config/config.h"

namespace moonring::model {

// Rows are gathered by expert: expert e has rows [begin[e], begin[e + 1]).
using ExpertOffsets = std::vector<int64_t>;

// The tokens' choices, and the rows that they form.
struct Routing {
  at::Tensor probability_TE;  // in the stream's dtype; each row sums to 1
  at::Tensor chosen_TK;       // int64
  at::Tensor weight_TK;       // in the stream's dtype
  at::Tensor token_N;         // int64: the token of each row; rows are ordered by expert
  at::Tensor row_N;           // int64: the row of the k-th choice of token t, at index t K + k
  at::Tensor count_E;         // int64: rows of each expert
};

// `correction_E` is c, in the wide dtype (fp32, or fp64 for fp64); undefined: 0.
Routing Route(const ExpertRule& rule, const Projection& router, const at::Tensor& correction_E,
              const at::Tensor& x_TD);

// The experts' row offsets on the host: E + 1. Cost: on a GPU it waits for the counts.
ExpertOffsets HostOffsets(const Routing& routing);

// The group of each token, for the tally.
struct RouterGroups {
  at::Tensor group_T;  // int64; undefined: nothing is tallied
  int64_t count = 0;   // G
};

struct RouterTally {
  at::Tensor probability_GE;  // sums of p; differentiable
  at::Tensor chosen_GE;       // int64: how often each expert was chosen
};

RouterTally Tally(const Routing& routing, const RouterGroups& groups);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_ROUTER_H_
