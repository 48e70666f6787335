#include "kernels/packed/parts.h"

#include <c10/core/ScalarType.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace moonring::kernels {
namespace {

std::string ShapeOf(const at::Tensor& tensor) {
  return absl::StrCat("[", absl::StrJoin(tensor.sizes(), ", "), "]");
}

bool IsUnpacked(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16 ||
         dtype == at::kHalf;
}

}  // namespace

int64_t BytesOf(const std::vector<PartShape>& parts) {
  int64_t bytes = 0;
  for (const PartShape& part : parts)
    bytes += part.size * static_cast<int64_t>(c10::elementSize(part.dtype));
  return bytes;
}

void CheckParts(const std::string& code, const std::vector<PartShape>& wanted,
                const PackedWeight& packed, const at::Tensor& out) {
  TORCH_CHECK(out.sizes() == at::IntArrayRef(packed.shape) && out.is_contiguous() &&
                  IsUnpacked(out.scalar_type()),
              code, ": unpacked into a tensor of shape ", out.sizes(), " and strides ",
              out.strides(), " in ", out.scalar_type(), ", expected shape ",
              at::IntArrayRef(packed.shape), " without gaps, in fp32, fp64, bf16 or fp16");
  TORCH_CHECK(packed.parts.size() == wanted.size(), code, ": ", packed.parts.size(),
              " parts of a packed weight, expected ", wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const at::Tensor& part = packed.parts[i];
    TORCH_CHECK(part.defined() && part.dim() == 1 && part.numel() == wanted[i].size &&
                    part.scalar_type() == wanted[i].dtype && part.is_contiguous(),
                code, ": ", wanted[i].name, " of shape ", part.sizes(), " in ", part.scalar_type(),
                ", expected [", wanted[i].size, "] in ", wanted[i].dtype, " for a weight of shape ",
                at::IntArrayRef(packed.shape));
    TORCH_CHECK(part.device() == out.device(), code, ": ", wanted[i].name, " on ", part.device(),
                ", to be unpacked on ", out.device());
  }
}

absl::StatusOr<at::Tensor> ToPack(const std::string& code, const at::Tensor& weight) {
  const at::ScalarType dtype = weight.scalar_type();
  if (dtype != at::kFloat && dtype != at::kBFloat16 && dtype != at::kHalf) {
    return absl::InvalidArgumentError(absl::StrCat(code, ": a weight in ", c10::toString(dtype),
                                                   ", expected fp32, bf16 or fp16"));
  }
  return weight.detach().to(at::kCPU).contiguous();
}

absl::Status NotFinite(const std::string& code, const at::Tensor& weight) {
  return absl::InvalidArgumentError(absl::StrCat(code, ": a weight of shape ", ShapeOf(weight),
                                                 " in ", c10::toString(weight.scalar_type()),
                                                 " has numbers that are not finite"));
}

}  // namespace moonring::kernels
