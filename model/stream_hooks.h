#ifndef MOONRING_MODEL_STREAM_HOOKS_H_
#define MOONRING_MODEL_STREAM_HOOKS_H_

// Hooks on the residual stream between the modules of a forward. They can read or replace the
// stream, return it from the forward, or end the forward early.
//
// A layer number is a position between modules: 0 after the embedding, k after the k-th block
// (model.layers.<k-1>), L after the last block and before the final norm, L + 1 after that norm.
//
// The hook `after` is called in a forward only, not in the recomputation during a backward, and
// autograd differentiates its operators as usual. If a hook replaces the input of a block, the
// block keeps the replaced input for its backward, in every mode of recompute and activation
// offload.

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/strings/string_view.h"

namespace moonring::model {

// A function that is called with the residual stream after a module, and with the module's Hugging
// Face name. It returns a replacement of the same shape, dtype and device, or an undefined tensor
// to leave the stream unchanged. Ranks among which a sequence is split must use the same function.
using StreamHook =
    std::function<at::Tensor(int64_t layer, absl::string_view module, const at::Tensor& hidden_TD)>;

struct StreamHooks {
  StreamHook after;  // null: no hook
  std::vector<int64_t>
      states;  // layer numbers, at most L, of the states to return (after the hook)
  // The layer number, at most L, at which the forward ends, without the final norm; absent: the
  // whole forward runs.
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

  // Calls the hook after a module and returns the stream for the next module. Throws a
  // c10::ValueError if the hook returned a tensor of another shape, dtype or device.
  at::Tensor After(int64_t layer, absl::string_view module, at::Tensor hidden_TD);

  // Returns the stream [T_local, D] at each of hooks.states, in their order. Call it after all
  // modules have run.
  std::vector<at::Tensor> TakeStates() { return std::move(states_); }

 private:
  const StreamHooks& hooks_;
  const int64_t layers_;
  std::vector<at::Tensor> states_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_STREAM_HOOKS_H_
