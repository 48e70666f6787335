#include "comm/parameter.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "comm/memory_account.h"

namespace moonring::comm {

Parameter::Parameter(std::string name, at::Tensor weight, bool trainable)
    : name_(std::move(name)), weight_(weight.detach()), trainable_(trainable) {
  CountAs(MemoryPart::kWeights, weight_);
}

at::Tensor Parameter::Lease(at::ScalarType dtype) const {
  at::NoGradGuard no_grad;
  const MemoryScope memory(MemoryPart::kWeights);
  return weight_.detach().to(dtype);
}

at::ScalarType Parameter::gradient_dtype() const { return weight_.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

at::Tensor& Parameter::GradientOrZeros() {
  const MemoryScope memory(MemoryPart::kGradients);
  if (!gradient_.defined()) gradient_ = at::zeros(weight_.sizes(), weight_.options().dtype(gradient_dtype()));
  return gradient_;
}

void Parameter::AddGradient(const at::Tensor& gradient) {
  TORCH_CHECK(trainable_, name_, ": a gradient for a frozen parameter");
  TORCH_CHECK(gradient.sizes() == weight_.sizes(), name_, ": gradient of shape ", gradient.sizes(), ", weight of shape ", weight_.sizes());
  at::NoGradGuard no_grad;
  const MemoryScope memory(MemoryPart::kGradients);
  if (gradient_.defined()) {
    gradient_.add_(gradient);
    return;
  }
  // A copy, also where the dtype agrees: the caller may go on writing to its tensor, and a view would keep a larger one alive.
  gradient_ = gradient.detach().to(gradient_dtype(), /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
}

void Parameter::TakeGradient(at::Tensor gradient) {
  const bool keep = !gradient_.defined() && trainable_ && gradient.sizes() == weight_.sizes() && gradient.scalar_type() == gradient_dtype() &&
                    gradient.is_contiguous() && gradient.storage().nbytes() == gradient.nbytes();
  if (keep) {
    gradient_ = gradient.detach();
    CountAs(MemoryPart::kGradients, gradient_);
  } else {
    AddGradient(gradient);
  }
}

}  // namespace moonring::comm
