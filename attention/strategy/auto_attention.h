#ifndef MOONRING_ATTENTION_STRATEGY_AUTO_ATTENTION_H_
#define MOONRING_ATTENTION_STRATEGY_AUTO_ATTENTION_H_

// auto: chooses for each micro-batch the strategy with the lowest predicted time, from the heads,
// the ranks, the documents' lengths and the links' bandwidths.
//
// For each candidate strategy, the layout of the micro-batch's documents is made, and EstimateCost
// (attention_cost.h) counts its cost. Transfers are counted exactly for up to 32 context ranks, and
// for a sample of 32 where there are more. The predicted time of a rank for one layer, forward and
// backward, is
//
//   t = exchanged bytes / bandwidth + max(14 D area / flops, travelling bytes / bandwidth) +
//       exchanges x latency
//
// where D is the head dim and area the number of query-key pairs times query heads (8 D + 6 Dv
// replaces 14 D where values have the head dim Dv). Exchanged bytes are those of the exchange of
// heads, for which attention waits. Travelling bytes are those of keys, which are sent while tiles
// are computed (except the first slice's keys in all-gather). Bytes to other machines have a lower
// bandwidth. Strategies that merge partial results have smaller tiles, which run at 0.87 of the
// speed (ring-flash-attention's figure). A micro-batch takes as long as its slowest rank. Among the
// candidates within 5% of the least time, the one with the shortest transfer time is chosen, since
// the overlap of transfers with computation is the uncertain part of the estimate. Among equal
// candidates the first is chosen. The candidates are ulysses, zigzag-ring, all-gather, usp with
// every possible size of the heads axis, and double-ring over machines (listed in strategies.cc).
// The choice depends only on data that every rank has, so all ranks make the same choice without
// communication. Choices are cached by the documents' lengths.
//
// Cost of a choice: O(ranks log ranks) for each candidate; about one candidate exists for every
// divisor of the number of ranks.
//
// The machine's speeds are constants (MachineModel), not measurements: only their ratios matter,
// and the choice must be the same on every rank and in every run.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/attention.h"
#include "attention/kernels/mask.h"
#include "attention/strategy/attention_cost.h"
#include "attention/strategy/hybrid_attention.h"

namespace moonring::attention {

// Speeds per rank. The defaults describe one CPU core that talks to its neighbours over loopback
// and to other machines over a network.
struct MachineModel {
  double flops = 4e10;            // per second, of attention's kernels
  double near_bytes = 1e9;        // per second, within a machine
  double far_bytes = 1e8;         // per second, to other machines
  double latency_seconds = 1e-4;  // per exchange
};

// A GPU like the H100: 300 TFLOP/s in bf16, NVLink with 200 GB/s and a network with 25 GB/s per
// GPU.
inline constexpr MachineModel kGpuMachine{3e14, 2e11, 2.5e10, 2e-5};

// Predicted time of the slowest rank, in seconds.
double EstimateSeconds(const AttentionCost& cost, const AttentionShape& shape,
                       const MachineModel& machine);

class AutoAttention final : public Attention {
 public:
  // `candidates` must not be empty. The shape must have heads.
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
  mutable std::vector<Choice> choices_;  // a small cache; the latest choice is last
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGY_AUTO_ATTENTION_H_
