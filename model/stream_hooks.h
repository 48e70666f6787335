#ifndef MOONRING_MODEL_STREAM_HOOKS_H_
#define MOONRING_MODEL_STREAM_HOOKS_H_

// What a caller may do with the stream between the modules of a forward: look at it, have it
// returned, put another one in its place, end the forward early.
//
// A layer is a place between modules: 0 after the embedding, k after the k-th block
// (model.layers.<k-1>), L after the last one, before the final norm; L + 1 after that norm.
//
// All of it is done outside of the blocks' runs, in autograd's outer graph: `after` is called in a
// forward alone, never by what backward runs again, and what it computes is differentiated by the
// operators' own nodes. A block keeps its input, so one that was put in place is kept as any other,
// in whatever mode of recompute and wherever activations wait.

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/strings/string_view.h"

namespace moonring::model {

// Sees the stream after a module, by its published name, and gives what goes on in its place, of
// the same shape, dtype and device; undefined: the stream as it is. On ranks that share a sequence
// it must be the same function of a rank's rows on each of them.
using StreamHook =
    std::function<at::Tensor(int64_t layer, absl::string_view module, const at::Tensor& hidden_TD)>;

struct StreamHooks {
  StreamHook after;             // null: none
  std::vector<int64_t> states;  // layers up to L whose stream is wanted, as it goes on from there
  std::optional<int64_t> upto;  // the layer, up to L, after which the forward ends, without the
                                // final norm; absent: after that norm
};

// Leads the stream of one forward past its hooks.
class StreamPass {
 public:
  // `hooks` must outlive the pass. Throws a c10::ValueError for a layer that there is not.
  StreamPass(const StreamHooks& hooks, int64_t layers);

  // How many blocks run, and whether the final norm does.
  int64_t blocks() const { return hooks_.upto.value_or(layers_); }
  bool has_norm() const { return !hooks_.upto.has_value(); }

  // Returns what goes on after the module. Throws a c10::ValueError where a hook gave a tensor of
  // another shape, dtype or device.
  at::Tensor After(int64_t layer, absl::string_view module, at::Tensor hidden_TD);

  // [T_local, D] for each of hooks.states, in their order, once all modules have run.
  std::vector<at::Tensor> TakeStates() { return std::move(states_); }

 private:
  const StreamHooks& hooks_;
  const int64_t layers_;
  std::vector<at::Tensor> states_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_STREAM_HOOKS_H_
