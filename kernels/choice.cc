#include "kernels/choice.h"

#include <cstdlib>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace moonring::kernels {

absl::StatusOr<bool> FusedFrom(const char* word) {
  const absl::string_view text = word == nullptr ? "fused" : word;
  if (text == "fused" || text == "composed") return text == "fused";
  return absl::InvalidArgumentError(
      absl::StrCat("MOONRING_KERNELS='", text, "': expected fused or composed"));
}

bool UseKernel(const at::Tensor& tensor, const char* op) {
  if (!tensor.is_cuda()) return false;
  const absl::StatusOr<bool> fused = FusedFrom(std::getenv("MOONRING_KERNELS"));
  TORCH_CHECK(fused.ok(), std::string(fused.status().message()));
  if (!*fused) return false;
  const auto handle = c10::Dispatcher::singleton().findSchema({op, ""});
  // A simulated GPU (tests/testing/pretend_device) uses the kernels that are registered for the
  // CPU.
  return handle.has_value() && (handle->hasKernelForDispatchKey(c10::DispatchKey::CUDA) ||
                                handle->hasKernelForDispatchKey(c10::DispatchKey::CPU));
}

}  // namespace moonring::kernels
