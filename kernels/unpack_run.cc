#include <algorithm>

#include "kernels/run.h"
#include "kernels/unpack_launch.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

int64_t Quotient(int64_t n, int64_t by) { return (n + by - 1) / by; }

void CheckOut(const at::Tensor& out) {
  TORCH_CHECK(out.is_contiguous(), "unpack: out of shape ", out.sizes(), " and strides ",
              out.strides(), ", expected without gaps");
}

void CheckPart(const at::Tensor& part, const char* name, at::ScalarType dtype, int64_t size,
               const at::Tensor& out) {
  TORCH_CHECK(part.dim() == 1 && part.numel() == size && part.scalar_type() == dtype &&
                  part.is_contiguous() && part.device() == out.device(),
              "unpack: ", name, " of shape ", part.sizes(), " in ", part.scalar_type(), " on ",
              part.device(), ", expected [", size, "] in ", dtype, " without gaps on ",
              out.device());
}

void UnpackFourBits(at::Tensor& out, at::TensorList parts, at::ArrayRef<double> steps,
                    at::ArrayRef<double> scale_steps) {
  CheckOut(out);
  TORCH_CHECK(parts.size() == 2 || parts.size() == 4, "unpack: ", parts.size(),
              " parts, expected 2 or 4");
  TORCH_CHECK(steps.size() == kUnpackSteps && scale_steps.size() == kUnpackScaleSteps,
              "unpack: ", steps.size(), " and ", scale_steps.size(), " steps, expected 16 and 256");
  const int64_t blocks = Quotient(out.numel(), kUnpackBlock);
  const bool twice = parts.size() == 4;
  CheckPart(parts[0], "codes", at::kByte, Quotient(out.numel(), 2), out);
  UnpackFourBitsCall call{};
  call.type = TypeOf(out);
  call.count = out.numel();
  call.codes = parts[0].const_data_ptr<uint8_t>();
  if (twice) {
    CheckPart(parts[1], "scales' codes", at::kByte, blocks, out);
    CheckPart(parts[2], "scales' scales", at::kFloat, Quotient(blocks, kUnpackScaleBlock), out);
    CheckPart(parts[3], "the scales' mean", at::kFloat, 1, out);
    call.scale_codes = parts[1].const_data_ptr<uint8_t>();
    call.mean = parts[3].const_data_ptr<float>();
  } else {
    CheckPart(parts[1], "scales", at::kFloat, blocks, out);
  }
  call.scales = parts[twice ? 2 : 1].const_data_ptr<float>();
  call.out = DataOf(out);
  const auto narrow = [](double number) { return static_cast<float>(number); };
  std::transform(steps.begin(), steps.end(), call.steps, narrow);
  std::transform(scale_steps.begin(), scale_steps.end(), call.scale_steps, narrow);
  if (out.numel() > 0) LaunchUnpackFourBits(call, StreamOf(out));
}

void UnpackEightBits(at::Tensor& out, const at::Tensor& codes, const at::Tensor& scales) {
  CheckOut(out);
  CheckPart(codes, "codes", at::kChar, out.numel(), out);
  const int64_t rows = scales.numel();
  TORCH_CHECK(rows > 0 ? out.numel() % rows == 0 : out.numel() == 0, "unpack: ", rows,
              " scales for rows of a weight of shape ", out.sizes());
  CheckPart(scales, "scales", at::kFloat, rows, out);
  UnpackEightBitsCall call{};
  call.type = TypeOf(out);
  call.rows = rows;
  call.width = rows > 0 ? out.numel() / rows : 0;
  call.codes = codes.const_data_ptr<int8_t>();
  call.scales = scales.const_data_ptr<float>();
  call.out = DataOf(out);
  if (out.numel() > 0) LaunchUnpackEightBits(call, StreamOf(out));
}

KERNEL_OPERATORS(library) {
  library.impl("unpack_four_bits_", TORCH_FN(UnpackFourBits));
  library.impl("unpack_eight_bits_", TORCH_FN(UnpackEightBits));
}

}  // namespace
}  // namespace moonring::kernels::KERNEL_SIDE
