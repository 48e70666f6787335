#include "base/autograd/parameter.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "base/memory/memory_account.h"

namespace moonring::base {

Parameter::Parameter(std::string name, at::Tensor weight, bool trainable)
    : name_(std::move(name)),
      weight_(weight.detach()),
      shape_(weight.sizes().vec()),
      options_(weight_.options()),
      trainable_(trainable) {
  CountAs(MemoryPart::kWeights, weight_);
}

Parameter::Parameter(std::string name, at::Tensor part, at::IntArrayRef whole, int64_t begin)
    : Parameter(std::move(name), std::move(part)) {
  shape_ = whole.vec();
  begin_ = begin;
}

at::Tensor& Parameter::weight() {
  TORCH_CHECK(weight_.defined(), name_, ": the weight is stored elsewhere; lease it");
  return weight_;
}

void Parameter::KeepRows(int64_t first, int64_t count, std::shared_ptr<RowsOfAll> all) {
  TORCH_CHECK(!gradient_.defined() && weight().sizes() == shape(), name_,
              ": rows of a weight that is a part, or has a gradient");
  rows_of_all_ = std::move(all);
  if (first == 0 && count == shape_[0]) return;
  at::NoGradGuard no_grad;
  const MemoryScope memory(MemoryPart::kWeights);
  // A copy, because a view would keep the whole weight alive.
  weight_ = weight_.narrow(0, first, count).clone(at::MemoryFormat::Contiguous);
  begin_ = shape_[0] == 0 ? 0 : first * (numel() / shape_[0]);
  CountAs(MemoryPart::kWeights, weight_);
}

at::Tensor Parameter::Lease(at::ScalarType dtype) const {
  at::NoGradGuard no_grad;
  const MemoryScope memory(MemoryPart::kWeights);
  if (home_ != nullptr) return home_->Lease(dtype);
  if (!keeps_cast_ || dtype == weight_.scalar_type()) return weight_.detach().to(dtype);
  if (!cast_.defined() || cast_.scalar_type() != dtype) cast_ = weight_.detach().to(dtype);
  return cast_.detach();
}

void Parameter::KeepCast(bool keep) {
  keeps_cast_ = keep;
  cast_.reset();
}

at::Tensor Parameter::LeaseForPart(at::ScalarType dtype) const {
  at::NoGradGuard no_grad;
  const MemoryScope memory(MemoryPart::kWeights);
  return home_ != nullptr ? home_->Lease(dtype) : weight_.detach();
}

at::Tensor Parameter::LeaseWhole(at::ScalarType dtype) const {
  const at::Tensor here = Lease(dtype);
  return keeps_rows() ? rows_of_all_->Join(here.contiguous()) : here;
}

void Parameter::Fetch(at::ScalarType dtype) const {
  at::NoGradGuard no_grad;
  const MemoryScope memory(MemoryPart::kWeights);
  if (home_ != nullptr) home_->Fetch(dtype);
}

void Parameter::MoveWeight(std::shared_ptr<WeightHome> home) {
  home_ = std::move(home);
  weight_.reset();
}

void Parameter::MoveGradient(std::shared_ptr<GradientSink> sink) {
  gradient_.reset();
  sink_ = std::move(sink);
}

at::Tensor& Parameter::GradientOrZeros() {
  TORCH_CHECK(sink_ == nullptr, name_, ": the gradient is stored elsewhere");
  const MemoryScope memory(MemoryPart::kGradients);
  if (!gradient_.defined())
    gradient_ = at::zeros(weight().sizes(), weight().options().dtype(gradient_dtype()));
  return gradient_;
}

at::Tensor Parameter::GradientToAddTo() const {
  const bool fits = trainable_ && !is_summed_ && sink_ == nullptr && gradient_.defined() &&
                    gradient_.sizes() == shape() && gradient_.device() == device() &&
                    gradient_.scalar_type() == gradient_dtype();
  return fits ? gradient_ : at::Tensor();
}

at::Tensor Parameter::WholeGradient() {
  if (keeps_rows()) return rows_of_all_->Join(GradientOrZeros().contiguous());
  return sink_ != nullptr ? sink_->Whole() : GradientOrZeros();
}

void Parameter::CheckAdds() const {
  TORCH_CHECK(trainable_, name_, ": a gradient for a frozen parameter");
  TORCH_CHECK_VALUE(!is_summed_, name_, ": ", kAlreadySummed);
}

void Parameter::CheckGradient(const at::Tensor& gradient) const {
  CheckAdds();
  const at::IntArrayRef wanted =
      weight_.defined() ? weight_.sizes() : shape();  // after KeepRows: the kept rows
  TORCH_CHECK(gradient.sizes() == wanted, name_, ": gradient of shape ", gradient.sizes(),
              ", weight of shape ", wanted);
}

void Parameter::AddGradient(const at::Tensor& gradient) {
  CheckGradient(gradient);
  at::NoGradGuard no_grad;
  const MemoryScope memory(MemoryPart::kGradients);
  if (sink_ == nullptr && gradient_.defined()) {
    gradient_.add_(gradient);
    return;
  }
  // A copy even if the dtype agrees: the caller may still write to its tensor, and a view would
  // keep a larger tensor alive.
  at::Tensor copy = gradient.detach().to(gradient_dtype(), /*non_blocking=*/false, /*copy=*/true,
                                         at::MemoryFormat::Contiguous);
  if (sink_ != nullptr) {
    sink_->Take(std::move(copy));
  } else {
    gradient_ = std::move(copy);
  }
}

void Parameter::TakeGradient(at::Tensor gradient) {
  if (sink_ != nullptr) {
    at::NoGradGuard no_grad;
    if (gradient.defined()) {
      CheckGradient(gradient);
      gradient = gradient.detach().contiguous();
    }
    sink_->Take(std::move(gradient));
    return;
  }
  if (!gradient.defined()) return;
  const bool keep = !gradient_.defined() && trainable_ && !is_summed_ &&
                    gradient.sizes() == weight().sizes() &&
                    gradient.scalar_type() == gradient_dtype() && gradient.is_contiguous() &&
                    gradient.storage().nbytes() == gradient.nbytes();
  if (keep) {
    gradient_ = gradient.detach();
    CountAs(MemoryPart::kGradients, gradient_);
  } else {
    AddGradient(gradient);
  }
}

void Parameter::AddGradientRows(const at::Tensor& index_R, const at::Tensor& rows_RD) {
  CheckAdds();
  const at::IntArrayRef wanted = sink_ == nullptr ? weight().sizes() : shape();
  TORCH_CHECK(rows_RD.dim() >= 1 && rows_RD.dim() == static_cast<int64_t>(wanted.size()) &&
                  rows_RD.sizes().slice(1) == wanted.slice(1),
              name_, ": gradient rows of shape ", rows_RD.sizes(), ", weight of shape ", wanted);
  TORCH_CHECK(index_R.scalar_type() == at::kLong && index_R.dim() == 1 &&
                  index_R.size(0) == rows_RD.size(0),
              name_, ": indices of shape ", index_R.sizes(), " and dtype ", index_R.scalar_type(),
              " for gradient rows of shape ", rows_RD.sizes());
  at::NoGradGuard no_grad;
  if (sink_ == nullptr) {
    GradientOrZeros().index_add_(0, index_R, rows_RD.to(gradient_dtype()));
    return;
  }
  at::Tensor whole = at::zeros(shape_, options_.dtype(gradient_dtype()));
  sink_->Take(whole.index_add_(0, index_R, rows_RD.to(gradient_dtype())));
}

}  // namespace moonring::base
