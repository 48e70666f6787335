#ifndef MOONRING_ATTENTION_STRATEGY_HYBRID_ATTENTION_H_
#define MOONRING_ATTENTION_STRATEGY_HYBRID_ATTENTION_H_

// Attention over ranks that form a grid, context axis x heads axis: one implementation for all
// strategies. `contexts` and `heads` below are the sizes of the two axes.
//
//   forward    first the exchange of heads (head_exchange.h), then attention of the local heads
//              along the context axis by a plan (context_plan.h), then the inverse exchange. An
//              axis of one rank is skipped
//   backward   the same with gradients
//
//   contexts   heads   keys      strategy
//   1          1       -         dense: one rank owns the whole stream. It is the reference, whose
//                                results all other strategies reproduce from the same tiles
//   1          P       -         ulysses
//   P          1       ring      ring, zigzag-ring, double-ring
//   P          1       gather    all-gather
//   Pr         Pu      ring      usp (USP, arXiv:2405.07719; LoongTrain's 2D attention,
//                                arXiv:2406.18485)
//
// Cost for S tokens, H query heads and Hk kv heads (head dims D of keys, Dv of values; e: bytes of
// an element): the sum of both axes' costs, where a context rank has S / Pr tokens, and a head rank
// has H / Pu query heads and Hk' / Pu kv heads, Hk' = max(Hk, Pu). In the forward usp sends
// (Pu-1)/Pu^2 (S/Pr) (D + Dv) e (H + Hk') bytes to its Pu - 1 peers of the head axis and 3/4 of S
// (D + Dv) e (Hk'/Pu) (Pr-1)/Pr along the context axis. Memory for the backward: q, k, v of the
// local heads for the context rank's tokens, and their out and lse in AccumulateType (shared with
// the result where no heads are exchanged and the result has that dtype).

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "attention/attention.h"
#include "attention/kernels/block_attention.h"
#include "attention/kernels/mask.h"
#include "attention/kernels/tile_runner.h"
#include "attention/strategy/key_transport.h"
#include "comm/communicator.h"
#include "comm/layout.h"

namespace moonring::attention {

struct Strategy {
  std::string name;
  comm::Division division;
  std::shared_ptr<const KeyTransport> transport;  // of keys along the context axis; not null
};

// Returns the runner of a device's kernels.
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

// The strategy's name and, where they matter, the sizes of its axes, for example "usp of 2 contexts
// x 4 heads, head first".
std::string DescribeStrategy(const Strategy& strategy);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGY_HYBRID_ATTENTION_H_
