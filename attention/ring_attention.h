#ifndef MOONRING_ATTENTION_RING_ATTENTION_H_
#define MOONRING_ATTENTION_RING_ATTENTION_H_

// Context parallelism: queries stay, keys and values travel. In step s a rank meets the keys of the rank s before it, and
// merges what its queries see of them (softmax_merge.h). Contiguous or zigzag ownership: only the name and the layout that
// it asks for differ, since the plan (tile_plan.h) handles any.
//
// Keys go straight from their owner to each reader, and only the rows that some query of the reader sees: none between ranks
// without a common document, none backwards in a document. The transfer of step s + 1 runs while step s computes, its
// receive posted first. In the backward keys travel again, and the sums dk, dv of a step go straight back to their owner
// while the next step computes. An owner adds its own part first, then by step: the same order in every run.
//
// On the wire keys and values are in the input's dtype, dk and dv in AccumulateType. Rounded once, at the end.
//
// Communication, S tokens in one document, P ranks, Nk = S Hk D e: P - 1 steps forward, 2 (P - 1) backward. A ring that
// relays sends 2 Nk (P - 1)/P per rank forward; this one on average 1/2 of that under contiguous ownership, 3/4 under
// zigzag. Backward: the same, and as many rows again in AccumulateType.
// Memory: two keys-and-values buffers, fp32 results; for backward q, k, v and out, lse in fp32 of the local tokens.

#include <memory>
#include <utility>

#include "attention/attention.h"
#include "attention/attention_cost.h"
#include "attention/block_attention.h"
#include "comm/communicator.h"
#include "comm/layout.h"

namespace moonring::attention {

class RingAttention final : public Attention {
 public:
  // kContiguous is "ring", kZigzag is "zigzag-ring".
  RingAttention(comm::Ownership ownership, std::shared_ptr<comm::Communicator> group, std::shared_ptr<const BlockAttention> block)
      : ownership_(ownership), group_(std::move(group)), block_(std::move(block)) {}

  absl::string_view name() const override { return ownership_ == comm::Ownership::kZigzag ? "zigzag-ring" : "ring"; }
  comm::Ownership ownership() const override { return ownership_; }

  // INVALID_ARGUMENT where the layout is for another number of ranks.
  absl::StatusOr<std::unique_ptr<PlannedAttention>> Plan(std::shared_ptr<const comm::Layout> layout) override;

 private:
  comm::Ownership ownership_;
  std::shared_ptr<comm::Communicator> group_;
  std::shared_ptr<const BlockAttention> block_;
};

AttentionCost RingCost(const comm::Layout& layout, const AttentionShape& shape);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_RING_ATTENTION_H_
