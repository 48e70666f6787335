#ifndef MOONRING_TESTS_MIXERS_MIXING_PROBLEM_H_
#define MOONRING_TESTS_MIXERS_MIXING_PROBLEM_H_

// Streams of random rows for PlannedMixing, and what a layer makes of them, with all gradients: on
// one rank, token by token, or on a rank of several.

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
  bool rule = true;          // else the convolution alone, with a bias
  bool state_space = false;  // no delta, a bias of the convolution, a skip

  int64_t channels() const { return 2 * key_heads * keys + heads * values; }
};

// The whole stream's, in fp64, from a seed; `d_out` is the gradient of what comes out.
struct MixingTensors {
  at::Tensor x, g, beta, taps, bias, skip, d_out;
};
MixingTensors MakeMixingTensors(const MixingProblem& problem);

// Rows of a stream by their places, in an order of one's own.
MixingTensors RowsOf(const MixingTensors& stream, const at::Tensor& places);

// What comes out of rows, in a layer that may go on from a state of its own.
at::Tensor FeedRows(mixers::PlannedMixing& mixing, const MixingProblem& problem,
                    const MixingTensors& rows, int64_t layer = 0);

// out, and the gradients of x, g, beta (of the rank's rows) and of taps, bias and skip (the
// rank's part). `dtype`: of x and the taps; g and beta are in fp32, or fp64 for fp64.
std::vector<NamedTensor> RunMixing(mixers::PlannedMixing& mixing, const MixingProblem& problem,
                                   const MixingTensors& rows, at::ScalarType dtype);

// Convolution and rule by the recurrence, in fp64, of the whole stream.
std::vector<NamedTensor> RunByTokens(const MixingProblem& problem, const MixingTensors& stream);

// The rank's rows.
MixingTensors CutTensors(const MixingTensors& stream, const comm::Layout& layout, int rank);
bool IsOfRows(const NamedTensor& named);  // else a rank's part of a sum

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_MIXERS_MIXING_PROBLEM_H_
