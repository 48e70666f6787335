#ifndef MOONRING_MIXERS_OVER_RANKS_LOCAL_MIXING_H_
#define MOONRING_MIXERS_OVER_RANKS_LOCAL_MIXING_H_

// PlannedMixing on one rank that has whole documents, some of which may continue others
// (generations.h). No communication.

#include <optional>
#include <vector>

#include "comm/sequence.h"
#include "mixers/over_ranks/planned_mixing.h"
#include "mixers/rule/delta_inputs.h"
#include "mixers/rule/generations.h"

namespace moonring::mixers {

// The rule's inputs for a call whose rows have been convolved: views of `qkv_TC` as q, k, v.
DeltaInputs InputsOf(const DeltaCall& call, const at::Tensor& qkv_TC);

// The convolution before the rule, for a call with taps.
ConvolutionCall ConvolutionOf(const DeltaCall& call);

// out + skip v, head by head, rounded once; returns `out_THV` itself without a skip.
// Differentiable; saves only v and skip.
at::Tensor WithSkip(const at::Tensor& out_THV, const at::Tensor& v_THV, const at::Tensor& skip_H);

class LocalMixing : public PlannedMixing {
 public:
  // `lengths`: tokens of each document, in the order of the rows. `parents`: the parent of each
  // document, or empty.
  explicit LocalMixing(std::vector<int64_t> lengths, std::vector<comm::Parent> parents = {});

  at::Tensor Delta(const DeltaCall& call) override;
  at::Tensor Convolve(const ConvolutionCall& call) override;
  // Only the rule: [T, H, d_v].
  at::Tensor Rule(const DeltaInputs& inputs, const DeltaOptions& options) const;

 private:
  std::vector<int64_t> lengths_;
  std::vector<comm::Parent> parents_;
  std::optional<Generations> generations_;  // where there are parents
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_LOCAL_MIXING_H_
