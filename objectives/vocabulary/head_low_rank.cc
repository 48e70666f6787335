#include "objectives/vocabulary/head_low_rank.h"

#include <utility>

#include <ATen/ATen.h>

#include "base/memory/to_device.h"
#include "kernels/choice.h"
#include "kernels/philox.h"
#include "kernels/products/products.h"
#include "kernels/random/counter_random.h"

namespace moonring::objectives {

void CheckLowRank(const char* caller, const HeadLowRank& low_rank, at::IntArrayRef head_shape,
                  int64_t rows) {
  TORCH_CHECK_VALUE(low_rank.a_RD != nullptr && low_rank.b_VR != nullptr, caller,
                    ": a low-rank term of the head without A or B");
  const at::IntArrayRef a = low_rank.a_RD->shape(), b = low_rank.b_VR->shape();
  TORCH_CHECK_VALUE(a.size() == 2 && b.size() == 2 && a[0] == b[1] && a[1] == head_shape[1] &&
                        b[0] == head_shape[0],
                    caller, ": A of shape ", a, ", B of shape ", b, " for a head of shape ",
                    head_shape);
  TORCH_CHECK_VALUE(low_rank.dropout >= 0.0 && low_rank.dropout < 1.0, caller, ": dropout ",
                    low_rank.dropout, ", expected 0 <= rate < 1");
  if (low_rank.dropout == 0.0 || !low_rank.identity_T.defined()) return;
  TORCH_CHECK_VALUE(low_rank.identity_T.dim() == 1 && low_rank.identity_T.size(0) == rows &&
                        low_rank.identity_T.scalar_type() == at::kLong,
                    caller, ": identities ", low_rank.identity_T.sizes(), " of ",
                    low_rank.identity_T.scalar_type(), " for dropout before the head, expected ",
                    "int64 [", rows, "]");
}

LowRankTerm::LowRankTerm(const HeadLowRank& low_rank, at::ScalarType matmul_dtype,
                         const at::Tensor& hidden_TD, const at::Tensor& rows_N)
    : a_RD_(low_rank.a_RD->Lease(matmul_dtype)),
      b_VR_(low_rank.b_VR->Lease(matmul_dtype)),
      factor_(low_rank.factor),
      rate_(low_rank.dropout),
      key_(low_rank.key) {
  if (rate_ == 0.0 || !low_rank.identity_T.defined()) return;
  identity_N_ = base::ToDevice(low_rank.identity_T, hidden_TD.device());
  if (rows_N.defined()) identity_N_ = identity_N_.index_select(0, rows_N);
}

at::Tensor LowRankTerm::Dropped(const at::Tensor& x_RD, int64_t begin) const {
  if (!identity_N_.defined()) return x_RD;
  const at::Tensor identity_R = identity_N_.narrow(0, begin, x_RD.size(0));
  if (kernels::UseKernel(x_RD, kernels::kDropout))
    return kernels::Dropout(x_RD, key_, identity_R, rate_);
  return kernels::CounterUniform(key_, identity_R, x_RD.size(1))
      .ge(rate_)
      .to(x_RD.scalar_type())
      .mul_(1.0 / (1.0 - rate_))
      .mul_(x_RD);
}

void LowRankTerm::AddTo(const at::Tensor& product_RV, const at::Tensor& hidden_RD,
                        int64_t begin) const {
  const at::Tensor u_RK = kernels::Product(Dropped(hidden_RD, begin), a_RD_.t());
  kernels::AddProduct(product_RV, u_RK, b_VR_.t(), 1.0, factor_);
}

LowRankGradients::LowRankGradients(const HeadLowRank& low_rank, const LowRankTerm& term,
                                   at::ScalarType dtype)
    : term_(term), a_(low_rank.a_RD), b_(low_rank.b_VR), dtype_(dtype) {
  const at::TensorOptions like = term.a_RD().options().dtype(dtype);
  if (a_->trainable()) a_RD_ = at::zeros(a_->shape(), like);
  if (b_->trainable()) b_VR_ = at::zeros(b_->shape(), like);
}

at::Tensor LowRankGradients::Add(const at::Tensor& gradient_RV, const at::Tensor& hidden_RD,
                                 const at::Tensor& factor_R1, int64_t begin, bool hidden_wanted) {
  const at::ScalarType matmul = gradient_RV.scalar_type();
  const auto weighted = [&](const at::Tensor& product_RK) {
    const at::Tensor wide_RK = product_RK.to(dtype_).mul(term_.factor());
    return (factor_R1.defined() ? wide_RK * factor_R1 : wide_RK).to(matmul);
  };
  const at::Tensor dropped_RD = term_.Dropped(hidden_RD.to(matmul), begin);
  if (b_VR_.defined()) {
    const at::Tensor u_RK = kernels::Product(dropped_RD, term_.a_RD().t());
    kernels::AddProduct(b_VR_.narrow(0, 0, gradient_RV.size(1)), gradient_RV.t(), weighted(u_RK));
  }
  if (!a_RD_.defined() && !hidden_wanted) return {};
  const at::Tensor du_RK = weighted(kernels::Product(gradient_RV, term_.b_VR()));
  if (a_RD_.defined()) kernels::AddProduct(a_RD_, du_RK.t(), dropped_RD);
  if (!hidden_wanted) return {};
  return term_.Dropped(kernels::Product(du_RK, term_.a_RD()).to(dtype_), begin);
}

void LowRankGradients::Finish() {
  if (a_RD_.defined()) a_->TakeGradient(std::move(a_RD_));
  if (b_VR_.defined()) b_->TakeGradient(std::move(b_VR_));
}

}  // namespace moonring::objectives
