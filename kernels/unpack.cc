#include "kernels/unpack.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace moonring::kernels {

TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def(
      "unpack_four_bits_(Tensor(a!) out, Tensor[] parts, float[] steps, float[] scale_steps) -> "
      "()");
  library.def("unpack_eight_bits_(Tensor(a!) out, Tensor codes, Tensor scales) -> ()");
}

void UnpackFourBits(at::Tensor out, const std::vector<at::Tensor>& parts, at::ArrayRef<float> steps,
                    at::ArrayRef<float> scale_steps) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("moonring::unpack_four_bits_", "")
          .typed<void(at::Tensor&, at::TensorList, at::ArrayRef<double>, at::ArrayRef<double>)>();
  const auto wide = [](at::ArrayRef<float> numbers) {
    return std::vector<double>(numbers.begin(), numbers.end());
  };
  op.call(out, parts, wide(steps), wide(scale_steps));
}

void UnpackEightBits(at::Tensor out, const at::Tensor& codes, const at::Tensor& scales_R) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("moonring::unpack_eight_bits_", "")
                             .typed<void(at::Tensor&, const at::Tensor&, const at::Tensor&)>();
  op.call(out, codes, scales_R);
}

}  // namespace moonring::kernels
