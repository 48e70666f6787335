#include "lua/operators/integer_division.h"

#include <limits>

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ScalarOps.h>

#include "lua/binding/dtype_names.h"

namespace moonring::lua {
namespace {

at::Tensor OperandOf(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor();
  return at::native::wrapped_scalar_tensor(value.toScalar());
}

// Whether the operator returns integer quotients, not fractions.
bool DividesWhole(const Overload& overload, const torch::jit::Stack& arguments) {
  for (size_t i = 0; i < overload.arguments.size(); ++i) {
    if (overload.arguments[i].name == "rounding_mode") return !arguments[i].isNone();
  }
  return overload.divides != Division::kByMode;
}

void CheckQuotient(const at::Tensor& dividend, const at::Tensor& divisor) {
  if (!dividend.is_cpu() || !divisor.is_cpu()) return;
  const at::ScalarType dtype = at::result_type(dividend, divisor);
  if (dtype != at::kInt && dtype != at::kLong) return;
  if (!at::are_expandable(dividend.sizes(), divisor.sizes())) return;  // the operator raises it
  const at::NoGradGuard no_grad;
  const at::Tensor minus_one = divisor.to(dtype).eq(-1);
  if (!minus_one.any().item<bool>()) return;
  const int64_t least =
      dtype == at::kInt ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
  TORCH_CHECK_VALUE(!dividend.to(dtype).eq(least).logical_and(minus_one).any().item<bool>(),
                    "an element is ", least, ", the least ", NameOfDtype(dtype),
                    ", and divided by -1: the quotient is more than the greatest; expected a wider "
                    "dtype, or another divisor there");
}

}  // namespace

void CheckDivision(const Overload& overload, const torch::jit::Stack& arguments) {
  if (overload.divides == Division::kNone || arguments.size() < 2) return;
  if (DividesWhole(overload, arguments))
    CheckQuotient(OperandOf(arguments[0]), OperandOf(arguments[1]));
}

}  // namespace moonring::lua
