#ifndef MOONRING_MODEL_BLOCKS_ROUTER_H_
#define MOONRING_MODEL_BLOCKS_ROUTER_H_

// The router of a mixture of experts. It computes which experts C_t process a token t, and with
// which weights w_te:
//
//   softmax   p_t = softmax(Wr x_t + b);  C_t = the K experts of the largest p_t
//   sigmoid   p_t = sigmoid(Wr x_t + b);  C_t = the K experts of the largest p_t + c, only from the
//             token's best groups (DeepSeek-V3, arXiv:2412.19437, section 2.1.2)
//
//   w_te = scale p_te, or scale p_te / sum_C p_t if normalised
//
// c has one number per expert and gets no gradient. A group is E / groups consecutive experts; its
// score is the sum of the two largest p_t + c of its experts. Experts of other groups are never
// chosen (Transformers 4 sets their p + c to 0, which is the same if the chosen groups have K
// experts above that).
//
// Shapes: T tokens, E experts, K chosen, N = T K rows, G groups of tokens. Softmax and sigmoid are
// computed in fp32 (fp64 for fp64); so is the product Wr x if ExpertRule::wide_router is set.
//
// The load-balancing loss (Fedus et al. 2021, arXiv:2101.03961, eq. 4, as in Transformers'
// load_balancing_loss_func) of a group g of tokens is
//
//   E sum_e f_ge P_ge,   f_ge = (choices of e by g's tokens, over all layers) / n,   P_ge = (sum of
//       p_te over them) / n,   n = layers x tokens
//
// With sigmoid, p_t is divided by its sum in this loss (arXiv:2412.19437, eq. 19). A block returns
// its contribution to the two sums as a RouterTally: sums over this rank's tokens, which may be
// added over layers, micro-batches and ranks.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/blocks/projection.h"
#include "model/config/config.h"

namespace moonring::model {

// Offsets of the experts' rows, which are ordered by expert: with ExpertOffsets begin, expert e has
// the rows [begin[e], begin[e + 1]).
using ExpertOffsets = std::vector<int64_t>;

// The experts chosen for each token. Each (token, chosen expert) is a row, and rows are ordered by
// expert.
struct Routing {
  at::Tensor probability_TE;  // in fp32 (fp64 for fp64); each row sums to 1
  at::Tensor chosen_TK;       // int64
  at::Tensor weight_TK;       // in fp32 (fp64 for fp64)
  at::Tensor token_N;         // int64: the token of each row; rows are ordered by expert
  at::Tensor row_N;           // int64: the row of the k-th choice of token t, at index t K + k
  at::Tensor count_E;         // int64: rows of each expert
};

// `correction_E` is c, in fp32 (fp64 for fp64); undefined: 0.
Routing Route(const ExpertRule& rule, const Projection& router, const at::Tensor& correction_E,
              const at::Tensor& x_TD);

// Copies the experts' row offsets to the CPU: E + 1 numbers. On a GPU this waits for the GPU to
// count the rows.
ExpertOffsets HostOffsets(const Routing& routing);

// The groups of tokens over which the load-balancing loss is computed.
struct RouterGroups {
  at::Tensor group_T;  // int64: the group of each token; undefined: no sums are computed
  int64_t count = 0;   // G
};

struct RouterTally {
  at::Tensor probability_GE;  // sums of p; differentiable
  at::Tensor chosen_GE;       // int64: how often each expert was chosen
};

RouterTally Tally(const Routing& routing, const RouterGroups& groups);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_ROUTER_H_
