#include <tuple>

#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include "kernels/run.h"
#include "kernels/short_convolution_launch.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

void CheckConvolution(const char* what, const at::Tensor& tensor, at::IntArrayRef sizes,
                      at::ScalarType dtype) {
  TORCH_CHECK(tensor.sizes() == sizes && tensor.is_contiguous() && tensor.scalar_type() == dtype,
              "short_convolution: ", what, " ", tensor.sizes(), " of ", tensor.scalar_type(),
              " with strides ", tensor.strides(), ", expected ", dtype, " ", sizes,
              " without gaps");
}

// The rows of `x` must be contiguous.
ConvolutionCall ConvolutionCallOf(const at::Tensor& x, const at::Tensor& weight,
                                  const Optional& bias, const Optional& halo,
                                  const at::Tensor& documents, bool silu) {
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 2 && weight.size(1) >= 2 && weight.size(1) <= 4,
              "short_convolution: x ", x.sizes(), " and weight ", weight.sizes(),
              ", expected [T, C] and [C, 2 to 4]");
  const at::ScalarType dtype = x.scalar_type(), wide = at::toOpMathType(dtype);
  const int64_t channels = x.size(1);
  CheckConvolution("weight", weight, {channels, weight.size(1)}, wide);
  if (bias.has_value()) CheckConvolution("bias", *bias, {channels}, wide);
  if (halo.has_value()) CheckConvolution("halo", *halo, {halo->size(0), channels}, dtype);
  TORCH_CHECK(documents.dim() == 2 && documents.size(0) > 0 && documents.size(1) == 2 &&
                  documents.is_contiguous() && documents.scalar_type() == at::kLong,
              "short_convolution: documents ", documents.sizes(), " of ", documents.scalar_type(),
              ", expected int64 [D + 1, 2]");
  return {.type = TypeOf(dtype),
          .tokens = x.size(0),
          .channels = channels,
          .documents = documents.size(0) - 1,
          .taps = static_cast<int>(weight.size(1)),
          .silu = silu,
          .bounds = documents.const_data_ptr<int64_t>(),
          .x = RowsOf(x),
          .weight = weight.const_data_ptr(),
          .bias = bias.has_value() ? bias->const_data_ptr() : nullptr,
          .halo = halo.has_value() && halo->size(0) > 0 ? halo->const_data_ptr() : nullptr,
          .halo_rows = halo.has_value() ? halo->size(0) : 0};
}

at::Tensor ShortConvolution(const at::Tensor& given_x, const at::Tensor& weight,
                            const Optional& bias, const Optional& halo, const at::Tensor& documents,
                            bool silu) {
  const at::Tensor x = WithWholeRows(given_x), y = at::empty(x.sizes(), x.options());
  LaunchShortConvolution(ConvolutionCallOf(x, weight, bias, halo, documents, silu), DataOf(y),
                         StreamOf(x));
  return y;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> ShortConvolutionBackward(
    const at::Tensor& given_dy, const at::Tensor& given_x, const at::Tensor& weight,
    const Optional& bias, const Optional& halo, const at::Tensor& documents, bool silu) {
  const at::Tensor x = WithWholeRows(given_x), dy = WithWholeRows(given_dy);
  TORCH_CHECK(dy.sizes() == x.sizes() && dy.scalar_type() == x.scalar_type(),
              "short_convolution: dy ", dy.sizes(), " of ", dy.scalar_type(), " for x ", x.sizes(),
              " of ", x.scalar_type());
  const ConvolutionCall call = ConvolutionCallOf(x, weight, bias, halo, documents, silu);
  const at::Tensor dx = at::empty(x.sizes(), x.options()),
                   partial = at::empty({ConvolutionPartials(call), call.taps + 1, call.channels},
                                       weight.options());
  at::Tensor dhalo, dbias;
  if (halo.has_value()) dhalo = at::empty(halo->sizes(), halo->options());
  LaunchShortConvolutionBackward(
      call,
      {.dy = RowsOf(dy), .dx = DataOf(dx), .partial = DataOf(partial), .dhalo = DataOf(dhalo)},
      StreamOf(x));
  const at::Tensor sums = partial.sum(0);
  if (bias.has_value()) dbias = sums.select(0, call.taps);
  return {dx, sums.narrow(0, 0, call.taps).t(), dbias, dhalo};
}

KERNEL_OPERATORS(library) {
  library.impl("short_convolution", TORCH_FN(ShortConvolution));
  library.impl("short_convolution_backward", TORCH_FN(ShortConvolutionBackward));
}

}  // namespace
}  // namespace moonring::kernels::KERNEL_SIDE
