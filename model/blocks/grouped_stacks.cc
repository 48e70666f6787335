#include "model/blocks/grouped_stacks.h"

#include "base/autograd/custom_function.h"
#include "kernels/choice.h"
#include "kernels/products/gradient_sum.h"
#include "kernels/products/grouped_products.h"
#include "model/blocks/expert_stacks.h"
#include "model/blocks/layers.h"

namespace moonring::model {
namespace {

// y = x W + b, each row with its expert's W and b.
at::Tensor Map(const at::Tensor& x, const at::Tensor& right, const at::Tensor& bias,
               const RowsOfExperts& rows) {
  at::Tensor y = kernels::GroupedProduct(x, right, rows.end_E);
  if (bias.defined()) y.add_(bias.index_select(0, rows.expert_N));
  return y;
}

// Gradient of a stacked tensor of matrices in y = x W. It is added to `sum` if there is one (then
// the result is undefined), otherwise returned.
at::Tensor GradientOfStack(const ExpertStacks& stacks, const WeightSum& sum, const at::Tensor& x,
                           const at::Tensor& dy, const at::Tensor& end_E) {
  at::Tensor whole = stacks.transposed() ? kernels::GroupedGradient(x, dy, end_E)
                                         : kernels::GroupedGradient(dy, x, end_E);
  if (sum == nullptr) return whole;
  sum->Whole(whole.sizes(), whole.options()).add_(whole);
  return {};
}

}  // namespace

bool CanGroup(const Projection& gate_up, const Projection& down) {
  return kernels::UseKernel(gate_up.weight_OI, "aten::_grouped_mm") &&
         kernels::TakesGroups(gate_up.weight_OI) && kernels::TakesGroups(down.weight_OI);
}

at::Tensor GroupedStacks(const at::Tensor& x_ND, const RowsOfExperts& rows, const ExpertRule& rule,
                         Activation activation, const Projection& gate_up, const Projection& down) {
  const auto forward = [&](base::Tensors* saved) -> base::Tensors {
    const ExpertStacks stacks{rule};
    const at::Tensor both_NF = Map(x_ND, stacks.Right(gate_up.weight_OI), gate_up.bias_O, rows);
    at::Tensor y_ND =
        Map(stacks.Product(both_NF, activation), stacks.Right(down.weight_OI), down.bias_O, rows);
    *saved = {x_ND, gate_up.weight_OI, down.weight_OI, both_NF, rows.end_E};
    return {y_ND};
  };
  const auto backward = [rule, activation, gate_up_sum = gate_up.sum,
                         down_sum = down.sum](base::BackwardCall& call) -> base::Tensors {
    const ExpertStacks stacks{rule};
    const at::Tensor &x_ND = call.saved[0], &gate_up_weight = call.saved[1],
                     &down_weight = call.saved[2], &end_E = call.saved[4];
    const at::Tensor dy_ND = call.gradients[0].contiguous();
    base::Tensors result(5);
    if (call.wanted[2]) {
      result[2] = GradientOfStack(stacks, down_sum, stacks.Product(call.saved[3], activation),
                                  dy_ND, end_E);
    }
    if (call.wanted[4]) result[4] = kernels::GroupedSum(dy_ND, end_E);
    const at::Tensor dboth_NF = stacks.ProductBackward(
        kernels::GroupedProduct(dy_ND, stacks.Right(down_weight).transpose(1, 2), end_E),
        call.saved[3], activation);
    call.saved[3].reset();  // frees memory before a gradient is allocated
    if (call.wanted[1]) result[1] = GradientOfStack(stacks, gate_up_sum, x_ND, dboth_NF, end_E);
    if (call.wanted[3]) result[3] = kernels::GroupedSum(dboth_NF, end_E);
    if (call.wanted[0]) {
      result[0] =
          kernels::GroupedProduct(dboth_NF, stacks.Right(gate_up_weight).transpose(1, 2), end_E);
    }
    return result;
  };
  return base::ApplyToOne({.name = "grouped experts", .forward = forward, .backward = backward},
                          {x_ND, gate_up.weight_OI, down.weight_OI, gate_up.bias_O, down.bias_O});
}

}  // namespace moonring::model
