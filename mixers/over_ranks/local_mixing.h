#ifndef MOONRING_MIXERS_OVER_RANKS_LOCAL_MIXING_H_
#define MOONRING_MIXERS_OVER_RANKS_LOCAL_MIXING_H_

// PlannedMixing (planned_mixing.h) on one rank that has whole documents, without communication.
// Documents may continue a parent, a shared prefix that is stored as a separate document
// (generations.h).

#include <optional>
#include <vector>

#include "comm/sequence.h"
#include "mixers/over_ranks/planned_mixing.h"
#include "mixers/rule/delta_inputs.h"
#include "mixers/rule/generations.h"

namespace moonring::mixers {

// The delta rule's inputs, from a call and the result `qkv_TC` of its convolution, of which q, k
// and v are views.
DeltaInputs InputsOf(const DeltaCall& call, const at::Tensor& qkv_TC);

// The call of the convolution that precedes the delta rule. `call.taps_CW` must be defined.
ConvolutionCall ConvolutionOf(const DeltaCall& call);

// Returns out + skip v, with one number of skip per head, rounded once; `out_THV` itself if
// `skip_H` is undefined. Differentiable; saves only v and skip.
at::Tensor WithSkip(const at::Tensor& out_THV, const at::Tensor& v_THV, const at::Tensor& skip_H);

class LocalMixing : public PlannedMixing {
 public:
  // `lengths`: tokens of each document, in the order of the rows. `parents`: the parent of each
  // document, or empty.
  explicit LocalMixing(std::vector<int64_t> lengths, std::vector<comm::Parent> parents = {});

  at::Tensor Delta(const DeltaCall& call) override;
  at::Tensor Convolve(const ConvolutionCall& call) override;
  // Computes only the delta rule, without convolution and skip: [T, H, d_v].
  at::Tensor Rule(const DeltaInputs& inputs, const DeltaOptions& options) const;

 private:
  std::vector<int64_t> lengths_;
  std::vector<comm::Parent> parents_;
  std::optional<Generations> generations_;  // where there are parents
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_LOCAL_MIXING_H_
