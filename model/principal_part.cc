#include "model/principal_part.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/matmul.h>

#include "absl/strings/str_cat.h"
#include "kernels/random/counter_random.h"
#include "model/blocks/layers.h"

namespace moonring::model {
namespace {

// A [rows, columns] matrix of normal random numbers by the Box-Muller transform, sqrt(-2 ln u)
// cos(2 pi v) with u in (0, 1].
at::Tensor Normal(uint64_t seed, absl::string_view module, int64_t rows, int64_t columns,
                  const at::TensorOptions& options) {
  const auto uniform = [&](absl::string_view which) {
    return kernels::InitialUniform(seed, absl::StrCat(module, ".principal.", which),
                                   {rows, columns})
        .to(at::kDouble);
  };
  const at::Tensor u = uniform("length").neg_().add_(1.0), v = uniform("angle");
  return (u.log_().mul_(-2.0).sqrt_() * v.mul_(2.0 * M_PI).cos_()).to(options);
}

struct Decomposition {
  at::Tensor u_OR, s_R, vh_RI;
};

Decomposition Exact(const at::Tensor& w_OI, int64_t rank) {
  const auto [u, s, vh] = at::linalg_svd(w_OI, /*full_matrices=*/false);
  return {u.narrow(1, 0, rank), s.narrow(0, 0, rank), vh.narrow(0, 0, rank)};
}

at::Tensor Orthogonal(const at::Tensor& x) { return std::get<0>(at::linalg_qr(x)); }

// The randomised decomposition of a matrix with at least as many rows as columns.
Decomposition RandomisedOfTall(const at::Tensor& w, int64_t rank, int64_t iterations, uint64_t seed,
                               absl::string_view module) {
  at::Tensor q = Orthogonal(at::matmul(w, Normal(seed, module, w.size(1), rank, w.options())));
  for (int64_t i = 0; i < iterations; ++i)
    q = Orthogonal(at::matmul(w, Orthogonal(at::matmul(w.t(), q))));
  const auto [u, s, vh] = at::linalg_svd(at::matmul(q.t(), w), /*full_matrices=*/false);
  return {at::matmul(q, u), s, vh};
}

}  // namespace

PrincipalPart PrincipalPartOf(const at::Tensor& weight_OI, int64_t rank, double scale,
                              int64_t iterations, uint64_t seed, absl::string_view module) {
  at::NoGradGuard no_grad;
  const int64_t side = std::min(weight_OI.size(0), weight_OI.size(1));
  TORCH_CHECK_VALUE(rank <= side, "lora_rank: ", rank, ", expected at most ", side,
                    " with pissa_init: ", std::string(module), " has no more singular values");
  const at::Tensor w = weight_OI.to(WideDtype(weight_OI.scalar_type()));
  Decomposition found;
  if (iterations < 0) {
    found = Exact(w, rank);
  } else if (w.size(0) >= w.size(1)) {
    found = RandomisedOfTall(w, rank, iterations, seed, module);
  } else {
    const Decomposition turned = RandomisedOfTall(w.t(), rank, iterations, seed, module);
    found = {turned.vh_RI.t(), turned.s_R, turned.u_OR.t()};
  }
  const at::Tensor root_R = (found.s_R / scale).sqrt();
  return {(root_R.unsqueeze(1) * found.vh_RI).contiguous(), (found.u_OR * root_R).contiguous()};
}

}  // namespace moonring::model
