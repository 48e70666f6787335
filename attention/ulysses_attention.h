#ifndef MOONRING_ATTENTION_ULYSSES_ATTENTION_H_
#define MOONRING_ATTENTION_ULYSSES_ATTENTION_H_

// Head parallelism: an all-to-all turns a rank's tokens with all heads into all tokens with the rank's heads (head_split.h),
// each rank runs the dense plan on its heads, and the inverse all-to-all brings the results home.
//
// Any number of heads and ranks, heads in groups or not: a kv head goes once to each rank that computes one of its query
// heads, and is never repeated in memory. Any layout of tokens. In the forward pass bit-equal to dense attention.
//
// Communication, S tokens, P ranks, heads that split evenly: forward 2 all-to-alls of P - 1 steps, (P-1)/P^2 S D e (2H + 2Hk') bytes sent per
// rank, Hk' = max(Hk, P); backward the same, where kv heads are shared with their gradients in AccumulateType.
// Memory for backward, per rank: its heads of q, k, v for all tokens, and out and lse in fp32.

#include <memory>
#include <utility>

#include "attention/attention.h"
#include "attention/attention_cost.h"
#include "attention/block_attention.h"
#include "comm/communicator.h"

namespace moonring::attention {

class UlyssesAttention final : public Attention {
 public:
  UlyssesAttention(std::shared_ptr<comm::Communicator> group, std::shared_ptr<const BlockAttention> block)
      : group_(std::move(group)), block_(std::move(block)) {}

  absl::string_view name() const override { return "ulysses"; }
  comm::Ownership ownership() const override;

  // INVALID_ARGUMENT where the layout is for another number of ranks.
  absl::StatusOr<std::unique_ptr<PlannedAttention>> Plan(std::shared_ptr<const comm::Layout> layout) override;

 private:
  std::shared_ptr<comm::Communicator> group_;
  std::shared_ptr<const BlockAttention> block_;
};

AttentionCost UlyssesCost(const comm::Layout& layout, const AttentionShape& shape);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_ULYSSES_ATTENTION_H_
