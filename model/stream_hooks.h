#ifndef MOONRING_MODEL_STREAM_HOOKS_H_
#define MOONRING_MODEL_STREAM_HOOKS_H_

// Hooks on the residual stream between the modules of a forward: read it, return it, replace it, or
// end the forward early.
//
// A layer number is a position between modules: 0 after the embedding, k after the k-th block
// (model.layers.<k-1>), L after the last block and before the final norm, L + 1 after that norm.
//
// Hooks run outside the blocks' recomputed functions, in autograd's outer graph: `after` is called
// in a forward only, never by recomputation in a backward, and autograd differentiates its
// operators as usual. A block keeps its input for the backward, also an input that a hook replaced,
// in every mode of recompute and activation offload.

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/strings/string_view.h"

namespace moonring::model {

// Called with the stream after a module, and the module's published name. Returns a replacement of
// the same shape, dtype and device; undefined: the stream is unchanged. On ranks that share a
// sequence it must be the same function of a rank's rows on each of them.
using StreamHook =
    std::function<at::Tensor(int64_t layer, absl::string_view module, const at::Tensor& hidden_TD)>;

struct StreamHooks {
  StreamHook after;  // null: no hook
  std::vector<int64_t>
      states;  // layers, at most L, whose stream is returned, after hooks have acted on it
  // The layer, at most L, after which the forward ends, without the final norm; absent: the whole
  // forward runs.
  std::optional<int64_t> upto;
};

// Applies the hooks to the stream of one forward.
class StreamPass {
 public:
  // `hooks` must outlive the pass. Throws a c10::ValueError for a layer number out of range.
  StreamPass(const StreamHooks& hooks, int64_t layers);

  // How many blocks run, and whether the final norm runs.
  int64_t blocks() const { return hooks_.upto.value_or(layers_); }
  bool has_norm() const { return !hooks_.upto.has_value(); }

  // Returns the stream for the next module. Throws a c10::ValueError if a hook returned a tensor of
  // another shape, dtype or device.
  at::Tensor After(int64_t layer, absl::string_view module, at::Tensor hidden_TD);

  // [T_local, D] for each of hooks.states, in their order. Call after all modules have run.
  std::vector<at::Tensor> TakeStates() { return std::move(states_); }

 private:
  const StreamHooks& hooks_;
  const int64_t layers_;
  std::vector<at::Tensor> states_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_STREAM_HOOKS_H_
