#include "model/blocks/expert_stacks.h"

#include <utility>

#include <ATen/ops/empty_like.h>

#include "model/blocks/gated_product.h"

namespace moonring::model {

at::Tensor ExpertStacks::Half(const at::Tensor& both, int64_t which) const {
  const int64_t width = both.size(1) / 2;
  return rule.storage == ExpertStorage::kTransposed
             ? both.view({both.size(0), width, 2}).select(2, which)
             : both.narrow(1, which * width, width);
}

at::Tensor ExpertStacks::Product(const at::Tensor& both, Activation activation) const {
  if (rule.clamped.limit > 0) return ClampedProduct(Gate(both), Up(both), rule.clamped);
  return GatedProduct(Gate(both), Up(both), activation);
}

at::Tensor ExpertStacks::ProductBackward(at::Tensor dproduct, const at::Tensor& both,
                                         Activation activation) const {
  const GatedProductAgain::Gradients halves =
      rule.clamped.limit > 0
          ? ClampedProductBackward(dproduct, Gate(both), Up(both), rule.clamped)
          : GatedProductAgain(Gate(both), Up(both), activation).Backward(std::move(dproduct));
  at::Tensor dboth = at::empty_like(both, at::MemoryFormat::Contiguous);
  Gate(dboth).copy_(halves.gate_TI);
  Up(dboth).copy_(halves.up_TI);
  return dboth;
}

}  // namespace moonring::model
