#ifndef MOONRING_ATTENTION_HYBRID_ATTENTION_H_
#define MOONRING_ATTENTION_HYBRID_ATTENTION_H_

// Attention over ranks = context x heads: the one implementation of all strategies.
//
//   forward    the exchange of heads (head_exchange.h), attention along the context axis by a plan
//              (context_plan.h) on the heads at hand, the exchange back; an axis of one place does
//              nothing
//   backward   the same with gradients
//
//   contexts   heads   keys      strategy
//   1          1       -         dense: one rank owns the whole stream; the reference that all
//                                others equal, on the same tiles
//   1          P       -         ulysses
//   P          1       ring      ring, zigzag-ring, double-ring
//   P          1       gather    all-gather
//   Pr         Pu      ring      usp (USP, arXiv:2405.07719; LoongTrain's 2D attention,
//                                arXiv:2406.18485)
//
// Cost: of both parts, where a context place's tokens are S / Pr and its heads H / Pu, Hk' / Pu
// with Hk' = max(Hk, Pu). usp sends (Pu-1)/Pu^2 (S/Pr) (D + Dv) e (H + Hk') to its Pu - 1 peers of
// heads and 3/4 of S (D + Dv) e (Hk'/Pu) (Pr-1)/Pr along the context axis forward. Memory for
// backward: q, k, v of the heads at hand for the context place's tokens, and out and lse of these
// in AccumulateType (shared with the result where nothing is exchanged and the dtype is that).

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "attention/attention.h"
#include "attention/block_attention.h"
#include "attention/context_plan.h"
#include "attention/mask.h"
#include "attention/tile_runner.h"
#include "comm/communicator.h"
#include "comm/layout.h"

namespace moonring::attention {

enum class KeyTransport { kRing, kGather };

struct Strategy {
  std::string name;
  comm::Division division;
  KeyTransport keys = KeyTransport::kRing;
  int ring_window = 1;  // divides the contexts; all of them: a single ring
};

// What a context place does in a layer whose rule has this window. `has_collectives`: of the group,
// on the device.
ContextPlan PlanContext(const Strategy& strategy, const comm::Layout& layout, int context,
                        const TileOptions& options, bool has_collectives = false);

// What travels to and from it, to be counted: without tiles. O(contexts).
ContextPlan PlanContextTraffic(const Strategy& strategy, const comm::Layout& layout, int context,
                               int64_t window);

// The runner of a device's kernels.
using TileRunners = std::function<std::shared_ptr<const TileRunner>(const at::Device& device)>;

class HybridAttention final : public Attention {
 public:
  HybridAttention(Strategy strategy, std::shared_ptr<comm::Communicator> group, TileRunners runners)
      : strategy_(std::move(strategy)), group_(std::move(group)), runners_(std::move(runners)) {}

  absl::string_view name() const override { return strategy_.name; }
  comm::Division Divide(absl::Span<const int64_t> lengths) const override {
    return strategy_.division;
  }
  absl::StatusOr<std::unique_ptr<PlannedAttention>> Plan(std::shared_ptr<const comm::Layout> layout,
                                                         LayerMasks masks) const override;
  std::string Describe(absl::Span<const int64_t> lengths) const override;

  const Strategy& strategy() const { return strategy_; }

 private:
  Strategy strategy_;
  std::shared_ptr<comm::Communicator> group_;
  TileRunners runners_;
};

// The strategy's name and, where they matter, its axes: "usp of 2 contexts x 4 heads, head first".
std::string DescribeStrategy(const Strategy& strategy);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_HYBRID_ATTENTION_H_
