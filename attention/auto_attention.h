#ifndef MOONRING_ATTENTION_AUTO_ATTENTION_H_
#define MOONRING_ATTENTION_AUTO_ATTENTION_H_

// auto: for each micro-batch the strategy whose plan costs least, from the heads, the ranks, the
// lengths and the links.
//
// Each candidate's layout for the micro-batch's documents is made and its cost counted
// (EstimateCost of attention_cost.h: exactly up to 32 places that hold keys, of more for 32 of
// them). A rank's time for one layer, forward and backward, is then taken to be
//
//   t = exchanged bytes / bandwidth + max(14 D area / flops, travelling bytes / bandwidth) +
//       exchanges x latency
//
// (8 D + 6 Dv where values are of another size than keys),
// since heads are exchanged while attention waits, and keys travel under the tiles (but for the
// first slice of gathered ones); bytes to other machines have a bandwidth of their own. Where
// partial results are merged, tiles are smaller and go slower: by 0.87, ring-flash-attention's own
// figure. The micro-batch takes as long as its slowest rank. Among those within a twentieth of the
// least time the one whose bytes take the least counts as the best, since how well they hide is the
// guess. Candidates: ulysses, zigzag-ring, all-gather, usp with every number of heads, double-ring
// over machines (strategies.cc lists them). Of equal ones the first. A choice is a function of what
// every rank knows, so all make the same without a word; it is kept for the lengths that come
// again.
//
// Cost of a choice: O(ranks log ranks) for each candidate, of which there is one for every divisor
// of the ranks.
//
// The machine is described, not measured: only ratios matter, and the choice must be the same on
// every rank and in every run.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/attention.h"
#include "attention/attention_cost.h"
#include "attention/hybrid_attention.h"
#include "attention/mask.h"

namespace moonring::attention {

// Per rank. The defaults: a core of a CPU among its neighbours over loopback, and a network beyond.
struct MachineModel {
  double flops = 4e10;            // of attention's kernels, a second
  double near_bytes = 1e9;        // a second, within a machine
  double far_bytes = 1e8;         // a second, to other machines
  double latency_seconds = 1e-4;  // of a step
};

// A GPU of the H100's kind: 300 TFLOP/s in bf16, NVLink 200 GB/s and 25 GB/s of network for each.
inline constexpr MachineModel kGpuMachine{3e14, 2e11, 2.5e10, 2e-5};

// Seconds of the slowest rank.
double EstimateSeconds(const AttentionCost& cost, const Strategy& strategy,
                       const AttentionShape& shape, const MachineModel& machine);

class AutoAttention final : public Attention {
 public:
  // At least one candidate. The shape must have heads.
  AutoAttention(AttentionShape shape, MachineModel machine, int ranks_per_machine,
                std::vector<std::unique_ptr<HybridAttention>> candidates)
      : shape_(shape),
        machine_(machine),
        ranks_per_machine_(ranks_per_machine),
        candidates_(std::move(candidates)) {}

  absl::string_view name() const override { return "auto"; }
  comm::Division Divide(absl::Span<const int64_t> lengths) const override;
  absl::StatusOr<std::unique_ptr<PlannedAttention>> Plan(std::shared_ptr<const comm::Layout> layout,
                                                         LayerMasks masks) const override;
  const Attention& For(absl::Span<const int64_t> lengths) const override {
    return *Choose(lengths).attention;
  }
  std::string Describe(absl::Span<const int64_t> lengths) const override;
  std::optional<std::string> Chosen(absl::Span<const int64_t> lengths) const override;

 private:
  struct Choice {
    std::vector<int64_t> lengths;
    const HybridAttention* attention = nullptr;
    std::string why;
  };

  const Choice& Choose(absl::Span<const int64_t> lengths) const;

  AttentionShape shape_;
  MachineModel machine_;
  int ranks_per_machine_;
  std::vector<std::unique_ptr<HybridAttention>> candidates_;
  mutable std::vector<Choice> choices_;  // the latest last, a few of them
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_AUTO_ATTENTION_H_
