#ifndef MOONRING_MIXERS_LOCAL_MIXING_H_
#define MOONRING_MIXERS_LOCAL_MIXING_H_

// PlannedMixing on one rank that has whole documents, some of which may go on from others
// (generations.h). Nothing travels.

#include <optional>
#include <vector>

#include "comm/sequence.h"
#include "mixers/delta_inputs.h"
#include "mixers/generations.h"
#include "mixers/planned_mixing.h"

namespace moonring::mixers {

// q, k, v as the rule takes them, of a call whose rows are convolved: views of `qkv_TC`.
DeltaInputs InputsOf(const DeltaCall& call, const at::Tensor& qkv_TC);

// The convolution before the rule, of a call that has taps.
ConvolutionCall ConvolutionOf(const DeltaCall& call);

// out + skip v, head by head, rounded once; `out_THV` itself where there is no skip.
// Differentiable; beside v and skip nothing is kept.
at::Tensor WithSkip(const at::Tensor& out_THV, const at::Tensor& v_THV, const at::Tensor& skip_H);

class LocalMixing : public PlannedMixing {
 public:
  // Tokens of each document, in the order of the rows, and its parent, where there are some.
  explicit LocalMixing(std::vector<int64_t> lengths, std::vector<comm::Parent> parents = {});

  at::Tensor Delta(const DeltaCall& call) override;
  at::Tensor Convolve(const ConvolutionCall& call) override;
  // The rule alone: [T, H, d_v].
  at::Tensor Rule(const DeltaInputs& inputs, const DeltaOptions& options) const;

 private:
  std::vector<int64_t> lengths_;
  std::vector<comm::Parent> parents_;
  std::optional<Generations> generations_;  // where there are parents
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_LOCAL_MIXING_H_
