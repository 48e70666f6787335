#ifndef MOONRING_TESTS_MIXERS_MIXING_PROBLEM_H_
#define MOONRING_TESTS_MIXERS_MIXING_PROBLEM_H_

// Random streams for PlannedMixing, and the outputs and gradients of one layer, computed on one
// rank token by token, or on one rank of several.

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/layout.h"
#include "mixers/over_ranks/planned_mixing.h"
#include "tests/mixers/delta_problem.h"

namespace moonring::testing {

struct MixingProblem {
  std::vector<int64_t> lengths;
  int64_t key_heads = 2, heads = 4, keys = 8, values = 6;
  int64_t taps = 4;  // 0: no convolution
  bool by_channel = false;
  bool rule = true;          // false: only the convolution, with a bias
  bool state_space = false;  // no delta term, a bias of the convolution, and a skip

  int64_t channels() const { return 2 * key_heads * keys + heads * values; }
};

// The tensors of the whole stream in fp64, from a seed. d_out: the gradient of the output.
struct MixingTensors {
  at::Tensor x, g, beta, taps, bias, skip, d_out;
};
MixingTensors MakeMixingTensors(const MixingProblem& problem);

// Returns the rows of a stream at the indices `places`, in that order.
MixingTensors RowsOf(const MixingTensors& stream, const at::Tensor& places);

// Returns the output for the given rows, in a layer that may continue from a cached state.
at::Tensor FeedRows(mixers::PlannedMixing& mixing, const MixingProblem& problem,
                    const MixingTensors& rows, int64_t layer = 0);

// Returns out, the gradients of x, g and beta (this rank's rows), and those of taps, bias and skip
// (this rank's contribution). `dtype`: of x and the taps; g and beta are fp32, or fp64 if `dtype`
// is fp64.
std::vector<NamedTensor> RunMixing(mixers::PlannedMixing& mixing, const MixingProblem& problem,
                                   const MixingTensors& rows, at::ScalarType dtype);

// Computes the reference: convolution and delta rule over the whole stream by the recurrence, in
// fp64.
std::vector<NamedTensor> RunByTokens(const MixingProblem& problem, const MixingTensors& stream);

// Returns the rank's rows.
MixingTensors CutTensors(const MixingTensors& stream, const comm::Layout& layout, int rank);
bool IsOfRows(const NamedTensor& named);  // otherwise a rank's share of a sum

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_MIXERS_MIXING_PROBLEM_H_
