#include "mixers/rule/short_convolution.h"

#include <memory>
#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>

#include "base/autograd/custom_function.h"
#include "base/memory/to_device.h"
#include "kernels/choice.h"
#include "kernels/short_convolution.h"

namespace moonring::mixers {
namespace {

// The stream with W - 1 additional rows before each document, which are its halo or zeros. In this
// extended stream the rows that a tap reads are one slice.
struct Extended {
  int64_t rows = 0, taps = 0;
  at::Tensor own_T, halo_R;  // row indices of x and of the halo in the extended stream
};

Extended Extend(const std::vector<int64_t>& lengths, const std::vector<int64_t>& halo_lengths,
                int64_t taps, at::Device device) {
  Extended extended{.taps = taps};
  std::vector<int64_t> own, halo;
  for (size_t document = 0; document < lengths.size(); ++document) {
    extended.rows += taps - 1;
    const int64_t before = halo_lengths.empty() ? 0 : halo_lengths[document];
    for (int64_t row = before; row > 0; --row) halo.push_back(extended.rows - row);
    for (int64_t row = 0; row < lengths[document]; ++row) own.push_back(extended.rows++);
  }
  extended.own_T = base::ToDevice(own, device);
  extended.halo_R = base::ToDevice(halo, device);
  return extended;
}

at::Tensor Fill(const Extended& extended, const at::Tensor& x_TC, const at::Tensor& halo_RC,
                at::ScalarType dtype) {
  at::Tensor filled = at::zeros({extended.rows, x_TC.size(1)}, x_TC.options().dtype(dtype));
  filled.index_copy_(0, extended.own_T, x_TC.to(dtype));
  if (halo_RC.defined()) filled.index_copy_(0, extended.halo_R, halo_RC.to(dtype));
  return filled;
}

// The rows that a tap reads: row i of the result is what it reads for row i + W - 1 of `filled`,
// where W is the number of taps.
at::Tensor Tap(const Extended& extended, const at::Tensor& filled, int64_t tap) {
  return filled.narrow(0, tap, extended.rows - extended.taps + 1);
}

// Returns the convolution before SiLU, for the documents' own rows: for each row the sum over the
// taps of weight times the row that the tap reads, plus the bias. Rows of the halo (earlier rows of
// a document, from another rank or call) are read but get no result.
at::Tensor Convolve(const Extended& extended, const at::Tensor& filled, const at::Tensor& weight_CW,
                    const at::Tensor& bias_C) {
  const at::Tensor last = Tap(extended, filled, extended.taps - 1);
  at::Tensor z = last * weight_CW.select(1, extended.taps - 1);
  for (int64_t tap = 0; tap + 1 < extended.taps; ++tap)
    z.addcmul_(Tap(extended, filled, tap), weight_CW.select(1, tap));
  if (bias_C.defined()) z.add_(bias_C);
  return z.index_select(0, extended.own_T - (extended.taps - 1));
}

base::Tensors Backward(const Extended& extended, bool silu, const ShortConvolutionInputs& inputs,
                       at::Tensor dy, at::ScalarType dtype) {
  const at::Tensor weight = inputs.weight_CW.to(dtype);
  const at::Tensor filled = Fill(extended, inputs.x_TC, inputs.halo_RC, dtype);
  dy = dy.to(dtype);
  if (silu) {
    const at::Tensor bias = inputs.bias_C.defined() ? inputs.bias_C.to(dtype) : at::Tensor();
    dy = at::silu_backward(dy, Convolve(extended, filled, weight, bias));
  }
  const at::Tensor dz = at::zeros_like(Tap(extended, filled, 0), at::MemoryFormat::Contiguous);
  dz.index_copy_(0, extended.own_T - (extended.taps - 1), dy);
  const at::Tensor d_filled = at::zeros_like(filled);
  const at::Tensor d_weight = at::zeros_like(weight, at::MemoryFormat::Contiguous);
  for (int64_t tap = 0; tap < extended.taps; ++tap) {
    Tap(extended, d_filled, tap).addcmul_(dz, weight.select(1, tap));
    d_weight.select(1, tap).copy_((dz * Tap(extended, filled, tap)).sum(0));
  }
  base::Tensors gradients(4);
  gradients[0] = d_filled.index_select(0, extended.own_T).to(inputs.x_TC.scalar_type());
  gradients[1] = d_weight.to(inputs.weight_CW.scalar_type());
  if (inputs.bias_C.defined()) gradients[2] = dy.sum(0).to(inputs.bias_C.scalar_type());
  if (inputs.halo_RC.defined())
    gradients[3] = d_filled.index_select(0, extended.halo_R).to(inputs.halo_RC.scalar_type());
  return gradients;
}

// ---- The convolution by one GPU kernel

bool UseConvolutionKernel(const ShortConvolutionInputs& inputs) {
  return kernels::ShortConvolutionTakes(inputs.weight_CW.size(1)) &&
         kernels::UseKernel(inputs.x_TC, kernels::kShortConvolution);
}

// The first row of each document in x, and of its halo in the halo tensor: [D + 1, 2].
at::Tensor BoundsOf(const std::vector<int64_t>& lengths, const std::vector<int64_t>& halo_lengths,
                    at::Device device) {
  std::vector<int64_t> bounds = {0, 0};
  for (size_t document = 0; document < lengths.size(); ++document) {
    const int64_t halo = halo_lengths.empty() ? 0 : halo_lengths[document];
    bounds.push_back(bounds[2 * document] + lengths[document]);
    bounds.push_back(bounds[2 * document + 1] + halo);
  }
  return base::ToDevice(bounds, device).view({-1, 2});
}

at::Tensor ByKernel(const ShortConvolutionInputs& inputs, const std::vector<int64_t>& lengths,
                    const ShortConvolutionOptions& options) {
  const at::Tensor &x = inputs.x_TC, &weight = inputs.weight_CW, &bias = inputs.bias_C,
                   &halo = inputs.halo_RC;
  const at::ScalarType dtype = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto to = [](const at::Tensor& tensor, at::ScalarType to_dtype) {
    return tensor.defined() ? tensor.detach().to(to_dtype).contiguous() : tensor;
  };
  const kernels::ConvolutionTensors tensors{x, to(weight, dtype), to(bias, dtype),
                                            to(halo, x.scalar_type()),
                                            BoundsOf(lengths, options.halo_lengths, x.device())};
  return base::ApplyToOne({.name = "short convolution",
                           .forward = [&](base::Tensors* saved) -> base::Tensors {
                             *saved = {tensors.x_TC, tensors.weight_CW, tensors.bias_C,
                                       tensors.halo_RC, tensors.documents};
                             return {kernels::ShortConvolution(tensors, options.silu)};
                           },
                           .backward = [silu = options.silu, of_weight = weight.scalar_type(),
                                        of_bias = bias.defined() ? bias.scalar_type() : dtype,
                                        of_halo = halo.defined() ? halo.scalar_type() : dtype](
                                           base::BackwardCall& call) -> base::Tensors {
                             const base::Tensors& saved = call.saved;
                             const kernels::ConvolutionGradients made =
                                 kernels::ShortConvolutionBackward(
                                     call.gradients[0].to(saved[0].scalar_type()),
                                     {saved[0], saved[1], saved[2], saved[3], saved[4]}, silu);
                             const auto to = [](const at::Tensor& tensor, at::ScalarType to_dtype) {
                               return tensor.defined() ? tensor.to(to_dtype) : tensor;
                             };
                             return {made.x_TC, made.weight_CW.to(of_weight),
                                     to(made.bias_C, of_bias), to(made.halo_RC, of_halo)};
                           }},
                          {x, weight, bias, halo});
}

void CheckInputs(const ShortConvolutionInputs& inputs, const std::vector<int64_t>& lengths,
                 const std::vector<int64_t>& halo_lengths) {
  const at::Tensor &x = inputs.x_TC, &weight = inputs.weight_CW;
  TORCH_CHECK(
      x.dim() == 2 && weight.dim() == 2 && weight.size(0) == x.size(1) && weight.size(1) > 0,
      "short convolution: expected x [T, C] and weight [C, W], got ", x.sizes(), " and ",
      weight.sizes());
  TORCH_CHECK(!inputs.bias_C.defined() || inputs.bias_C.sizes() == at::IntArrayRef({x.size(1)}),
              "short convolution: expected bias [C] for x ", x.sizes(), ", got ",
              inputs.bias_C.sizes());
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  TORCH_CHECK(tokens == x.size(0), "short convolution: documents of ", tokens, " tokens, but x is ",
              x.sizes());
  TORCH_CHECK(halo_lengths.empty() || halo_lengths.size() == lengths.size(),
              "short convolution: halos of ", halo_lengths.size(), " documents, of ",
              lengths.size());
  int64_t rows = 0;
  for (const int64_t length : halo_lengths) {
    TORCH_CHECK(length >= 0 && length < weight.size(1), "short convolution: a halo of ", length,
                " rows for ", weight.size(1), " taps");
    rows += length;
  }
  const int64_t given = inputs.halo_RC.defined() ? inputs.halo_RC.size(0) : 0;
  TORCH_CHECK(given == rows, "short convolution: expected a halo of ", rows, " rows, got ", given);
  TORCH_CHECK(
      !inputs.halo_RC.defined() || inputs.halo_RC.sizes() == at::IntArrayRef({rows, x.size(1)}),
      "short convolution: expected a halo [R, C] for x ", x.sizes(), ", got ",
      inputs.halo_RC.sizes());
  for (const at::Tensor* tensor : {&weight, &inputs.bias_C, &inputs.halo_RC})
    TORCH_CHECK(!tensor->defined() || tensor->device() == x.device(), "short convolution: x is on ",
                x.device(), ", an input on ", tensor->device());
}

}  // namespace

at::Tensor ShortConvolution(const ShortConvolutionInputs& inputs,
                            const std::vector<int64_t>& lengths,
                            const ShortConvolutionOptions& options) {
  CheckInputs(inputs, lengths, options.halo_lengths);
  const at::Tensor& x = inputs.x_TC;
  if (UseConvolutionKernel(inputs)) return ByKernel(inputs, lengths, options);
  // Not used without rows, where taps have nothing to read.
  const auto extended = std::make_shared<const Extended>(
      Extend(lengths, options.halo_lengths, inputs.weight_CW.size(1), x.device()));
  const at::ScalarType dtype = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const bool silu = options.silu;
  return base::ApplyToOne(
      {.name = "short convolution",
       .forward = [&](base::Tensors* saved) -> base::Tensors {
         *saved = {x, inputs.weight_CW, inputs.bias_C, inputs.halo_RC};
         if (lengths.empty()) return {x.clone()};
         const at::Tensor bias = inputs.bias_C.defined() ? inputs.bias_C.to(dtype) : at::Tensor();
         const at::Tensor z = Convolve(*extended, Fill(*extended, x, inputs.halo_RC, dtype),
                                       inputs.weight_CW.to(dtype), bias);
         return {(silu ? at::silu(z) : z).to(x.scalar_type())};
       },
       .backward = [extended, silu, dtype](base::BackwardCall& call) -> base::Tensors {
         const base::Tensors& saved = call.saved;
         if (extended->rows == 0 && extended->taps > 1) return {};
         return Backward(*extended, silu, {saved[0], saved[1], saved[2], saved[3]},
                         call.gradients[0], dtype);
       }},
      {x, inputs.weight_CW, inputs.bias_C, inputs.halo_RC});
}

}  // namespace moonring::mixers
