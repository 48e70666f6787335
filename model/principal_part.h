#ifndef MOONRING_MODEL_PRINCIPAL_PART_H_
#define MOONRING_MODEL_PRINCIPAL_PART_H_

// The component of a matrix along its R largest singular values, as the two factors of a low-rank
// adapter of scale s (PiSSA: Meng et al. 2024, arXiv 2404.02948). For a matrix W [O, I] = U S V^T
//
//   s B A = U_R S_R V_R^T,   A = sqrt(S_R / s) V_R^T  [R, I],   B = U_R sqrt(S_R / s)  [O, R]
//
//   iterations -1      by a full SVD: exact; about 10 O I min(O, I) flops
//   iterations n >= 0  randomised (Halko et al. 2009, algorithms 4.4 and 5.1, R columns, as PEFT
//                      does through torch.svd_lowrank): the range of (W W^T)^n W G by n
//                      orthogonalised iterations, G a matrix of normal numbers; about 4 n R O I
//                      flops. The error falls as (sigma_(R+1) / sigma_R)^(2n)
//
// G is a function of (seed, module) alone (kernels/random/counter_random.h): the same on every
// rank. Computed in fp32, or in fp64 for fp64 weights, on the device of W.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/strings/string_view.h"

namespace moonring::model {

struct PrincipalPart {
  at::Tensor a_RI, b_OR;  // in fp32 (fp64 for fp64)
};

// Throws if `rank` is above the smaller side of W. `iterations` is described at the beginning of
// this file.
PrincipalPart PrincipalPartOf(const at::Tensor& weight_OI, int64_t rank, double scale,
                              int64_t iterations, uint64_t seed, absl::string_view module);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_PRINCIPAL_PART_H_
