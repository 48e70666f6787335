#include <optional>

#include "kernels/delta_scan_launch.h"
#include "kernels/run.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

void CheckDeltaScan(const char* what, const at::Tensor& tensor, at::IntArrayRef sizes) {
  TORCH_CHECK(
      tensor.sizes() == sizes && tensor.is_contiguous() && tensor.scalar_type() == at::kFloat,
      "delta_scan: ", what, " ", tensor.sizes(), " of ", tensor.scalar_type(), " with strides ",
      tensor.strides(), ", expected fp32 ", sizes, " without gaps");
}

void DeltaScan(const at::Tensor& a, const at::Tensor& b, std::optional<at::Tensor> written,
               const std::optional<at::Tensor>& added, const at::Tensor& decay, at::Tensor state,
               at::Tensor states, const at::Tensor& round_begin, bool backward, bool tf32) {
  TORCH_CHECK(a.dim() == 4 && a.size(2) == 64 && a.size(3) > 0 && a.size(3) <= 256,
              "delta_scan: a ", a.sizes(), ", expected [N, H, 64, at most 256]");
  TORCH_CHECK(state.dim() == 4, "delta_scan: state ", state.sizes(), ", expected [D, H, V, K]");
  const int64_t chunks = a.size(0), heads = a.size(1), keys = a.size(3), width = state.size(2);
  CheckDeltaScan("a", a, a.sizes());
  CheckDeltaScan("b", b, a.sizes());
  CheckDeltaScan("state", state, {state.size(0), heads, width, keys});
  CheckDeltaScan("states", states, {chunks, heads, width, keys});
  if (written.has_value()) CheckDeltaScan("written", *written, {chunks, heads, 64, width});
  if (added.has_value()) CheckDeltaScan("added", *added, states.sizes());
  TORCH_CHECK(decay.dim() == 4 && decay.size(0) == chunks && decay.size(1) == heads &&
                  decay.size(2) == 1 && (decay.size(3) == 1 || decay.size(3) == keys) &&
                  (decay.size(3) == 1 || decay.stride(3) == 1) && decay.scalar_type() == at::kFloat,
              "delta_scan: decay ", decay.sizes(), " of ", decay.scalar_type(), " with strides ",
              decay.strides(), " for a ", a.sizes());
  TORCH_CHECK(round_begin.dim() == 1 && round_begin.size(0) > 0 && round_begin.is_contiguous() &&
                  round_begin.scalar_type() == at::kLong,
              "delta_scan: round_begin ", round_begin.sizes(), " of ", round_begin.scalar_type(),
              ", expected int64 [rounds + 1]");
  LaunchDeltaScan({.documents = state.size(0),
                   .heads = heads,
                   .width = width,
                   .keys = keys,
                   .rounds = round_begin.size(0) - 1,
                   .round_begin = round_begin.const_data_ptr<int64_t>(),
                   .a = a.const_data_ptr<float>(),
                   .b = b.const_data_ptr<float>(),
                   .written = written.has_value() ? FloatsOf(*written) : nullptr,
                   .added = added.has_value() ? added->const_data_ptr<float>() : nullptr,
                   .decay = decay.const_data_ptr<float>(),
                   .decay_of_chunk = decay.stride(0),
                   .decay_of_head = decay.stride(1),
                   .decay_of_key = decay.size(3) == 1 ? 0 : 1,
                   .state = FloatsOf(state),
                   .states = FloatsOf(states),
                   .backward = backward,
                   .tf32 = tf32},
                  StreamOf(state));
}

KERNEL_OPERATORS(library) { library.impl("delta_scan", TORCH_FN(DeltaScan)); }

}  // namespace
}  // namespace moonring::kernels::KERNEL_SIDE
