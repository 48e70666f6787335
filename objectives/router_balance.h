#ifndef MOONRING_OBJECTIVES_ROUTER_BALANCE_H_
#define MOONRING_OBJECTIVES_ROUTER_BALANCE_H_

// The load-balancing loss of a mixture of experts (Fedus et al. 2021, arXiv:2101.03961, eq. 4, in
// the form of Transformers' load_balancing_loss_func), for E experts. For a group g of tokens,
// where c_ge counts how often expert e was chosen, p_te are the router's probabilities and K is the
// number of choices per token,
//
//   loss_g = coefficient E sum_e f_ge P_ge,
//   f_ge = c_ge / n_g,   P_ge = sum_t p_te / n_g,   n_g = sum_e c_ge / K
//
// over the tokens of all layers that have a router. f has no gradient, so loss_g = sum_t sum_e w_ge
// p_te with
//
//   w_ge = coefficient E c_ge / n_g^2
//
// which is a sum over tokens: once c is known for the whole group, each rank and micro-batch can
// compute its share.

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace moonring::objectives {

// Returns w [G, E] in fp64 from c [G, E] (any dtype) and K choices per token; 0 for a group without
// tokens. Throws where shapes or K do not match.
at::Tensor RouterWeights(const at::Tensor& chosen_GE, int64_t choices_per_token,
                         double coefficient);

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_ROUTER_BALANCE_H_
