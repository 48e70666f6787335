#ifndef MOONRING_TESTS_MIXERS_DELTA_PROBLEM_H_
#define MOONRING_TESTS_MIXERS_DELTA_PROBLEM_H_

// Random inputs of the gated delta rule, and the gradients of all inputs, computed by the recurrent
// or by the chunked form.

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "mixers/rule/delta_inputs.h"

namespace moonring::testing {

struct DeltaProblem {
  std::string name;
  std::vector<int64_t> lengths;
  bool by_channel = false;  // g has the shape [T, H, d_k]
  bool initial = false;     // with an initial state
  bool normalize = false;   // by the rule itself; otherwise k has norm 1 already
  int64_t key_heads = 2, heads = 2, keys = 8, values = 6;
  double decay = 1.0;       // g is in [-2 decay, 0], except for:
  double strong_every = 0;  // every n-th token has g about -30
  bool delta = true;
  int64_t working_numbers = 0;  // that of the device
};

// Makes the inputs in fp64, from a seed.
mixers::DeltaInputs MakeDeltaInputs(const DeltaProblem& problem);
mixers::DeltaOptions OptionsOf(const DeltaProblem& problem);

mixers::DeltaInputs ToDtype(const mixers::DeltaInputs& inputs, at::ScalarType dtype);

using DeltaFunction = std::function<mixers::DeltaResult(
    const mixers::DeltaInputs&, const std::vector<int64_t>&, const mixers::DeltaOptions&)>;

// out, the final state, and the gradients of q, k, v, g, beta and the initial state (if there is
// one) for random gradients of out and of the final state, as names and tensors.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};
std::vector<NamedTensor> RunDelta(const DeltaFunction& function, const DeltaProblem& problem,
                                  at::ScalarType dtype);

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_MIXERS_DELTA_PROBLEM_H_
