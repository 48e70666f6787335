#include <vector>

#include "kernels/adamw_launch.h"
#include "kernels/run.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

void CheckAdamW(const at::Tensor& tensor, const at::Tensor& weight, at::ScalarType dtype) {
  TORCH_CHECK(
      tensor.is_contiguous() && tensor.scalar_type() == dtype && tensor.numel() == weight.numel(),
      "adamw: ", tensor.sizes(), " of ", tensor.scalar_type(), ", strides ", tensor.strides(),
      ", for a weight ", weight.sizes(), ", expected a contiguous one of ", dtype);
}

void AdamW(at::TensorList weights, at::TensorList gradients, at::TensorList means,
           at::TensorList squares, at::TensorList steps, at::IntArrayRef keys,
           at::IntArrayRef places, double lr, double beta1, double beta2, double weight_decay,
           double epsilon) {
  const size_t count = weights.size();
  TORCH_CHECK(gradients.size() == count && means.size() == count && squares.size() == count &&
                  steps.size() == count,
              "adamw: lists of ", count, ", ", gradients.size(), ", ", means.size(), ", ",
              squares.size(), " and ", steps.size(), " tensors");
  if (count == 0) return;
  const at::ScalarType weight = weights[0].scalar_type(), state = means[0].scalar_type();
  TORCH_CHECK(AdamWTakes(TypeOf(weight), TypeOf(state)), "adamw: weights of ", weight,
              " with states of ", state);
  const size_t keyed = state == at::kBFloat16 ? count : 0;
  TORCH_CHECK(keys.size() == keyed && places.size() == keyed, "adamw: ", keys.size(), " keys and ",
              places.size(), " places, expected ", keyed, " with states of ", state);
  std::vector<AdamWTensor> tensors;
  for (size_t i = 0; i < count; ++i) {
    CheckAdamW(weights[i], weights[i], weight);
    CheckAdamW(gradients[i], weights[i], at::toOpMathType(weight));
    CheckAdamW(means[i], weights[i], state);
    CheckAdamW(squares[i], weights[i], state);
    TORCH_CHECK(steps[i].numel() == 1 && steps[i].scalar_type() == at::kFloat, "adamw: a step ",
                steps[i].sizes(), " of ", steps[i].scalar_type(), ", expected one number of fp32");
    tensors.push_back({DataOf(weights[i]), gradients[i].const_data_ptr(), DataOf(means[i]),
                       DataOf(squares[i]), steps[i].const_data_ptr<float>(), weights[i].numel(),
                       keyed > 0 ? static_cast<uint64_t>(keys[i]) : 0, keyed > 0 ? places[i] : 0});
  }
  LaunchAdamW(TypeOf(weight), TypeOf(state), std::move(tensors),
              {lr, beta1, beta2, weight_decay, epsilon}, StreamOf(weights[0]));
}

KERNEL_OPERATORS(library) { library.impl("adamw", TORCH_FN(AdamW)); }

}  // namespace
}  // namespace moonring::kernels::KERNEL_SIDE
