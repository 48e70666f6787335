#include "base/autograd/used_parameter.h"

#include <ATen/core/grad_mode.h>

#include "base/autograd/custom_function.h"

namespace moonring::base {

at::Tensor Use(const std::shared_ptr<Parameter>& parameter, at::ScalarType dtype) {
  if (!parameter->trainable() || !at::GradMode::is_enabled()) return parameter->Lease(dtype);
  return ApplyToOne(
      {.name = "UseOf" + parameter->name(),
       // A separate tensor over the same storage, because the stored one must not get a graph.
       .forward = [&](Tensors*) { return Tensors{parameter->Lease(dtype).variable_data()}; },
       .backward =
           [parameter](BackwardCall& call) {
             parameter->AddGradient(call.gradients[0].detach());
             return Tensors();
           }},
      {Anchor(true)});
}

}  // namespace moonring::base
