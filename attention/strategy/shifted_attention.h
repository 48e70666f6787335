#ifndef MOONRING_ATTENTION_STRATEGY_SHIFTED_ATTENTION_H_
#define MOONRING_ATTENTION_STRATEGY_SHIFTED_ATTENTION_H_

// Shifted sparse attention (S2-Attn of LongLoRA, arXiv:2309.12307), with groups as in
// LLaMA-Factory's shift_attn. Each head attends within groups of tokens. For half of the heads the
// groups are shifted by half a group, so that information passes between neighbouring groups in the
// next layer.
//
//   G = a quarter of a document's length, padded to a multiple of 8
//   heads [0, H / 2)    groups [0, G), [G, 2 G), ...: causal attention within each group
//   heads [H / 2, H)    the document rolled back by G / 2, then the same: groups [G / 2, 3 G / 2),
//                       ..., and one that wraps around the document's end: its last G / 2 tokens,
//                       then its first G / 2, which attend to the last ones
//
// H / 2 is rounded down. Positions are the tokens' own. The last group is shorter where the length
// is not a multiple of 8; padding has no tokens.
//
// No tensor is rolled. A group is treated as a separate document, and where a group wraps, the
// first G / 2 tokens are a document whose parent has the last ones (mask.h). So each half of the
// heads is attention over documents under a mask, on the rows that ranks have anyway, and every
// strategy supports it. Rows travel only between ranks that share a group.
//
// A kv head that both halves read is given to both. Where a half's query heads do not share its kv
// heads evenly, kv heads are repeated until they do.
//
// Cost: a quarter of causal attention's pairs, and the transfers of two attentions over groups with
// half of the heads each. Memory beyond that: the output and its gradients once more (per half).

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "attention/attention.h"
#include "attention/kernels/head_split.h"
#include "attention/kernels/mask.h"
#include "attention/strategy/attention_cost.h"
#include "attention/strategy/hybrid_attention.h"
#include "comm/layout.h"

namespace moonring::attention {

// Tokens per group of a document; an even number.
int64_t ShiftedGroup(int64_t length);

// The heads of one half. `kv`: the indices of the kv heads that it reads, in order; their number
// divides that of its query heads.
struct ShiftedHeads {
  HeadRange queries;
  std::vector<int64_t> kv;
};
std::array<ShiftedHeads, 2> SplitHalves(int64_t heads, int64_t kv_heads);

// The documents (groups) that one half of the heads attends within, for a stream of documents of
// these lengths.
struct ShiftedDocuments {
  std::vector<int64_t> lengths;
  std::shared_ptr<const Mask> mask;  // null: the documents are independent of each other
};
absl::StatusOr<ShiftedDocuments> DocumentsOfHalf(absl::Span<const int64_t> lengths, int half);

// Query-key pairs of the tokens [begin, end) of a document, averaged over the two halves.
double ShiftedArea(int64_t length, int64_t begin, int64_t end);

// A plan with shifted attention in every layer. Its Forward refuses a window. INVALID_ARGUMENT as
// in Attention::Plan.
absl::StatusOr<std::unique_ptr<PlannedAttention>> PlanShifted(
    const Attention& attention, std::shared_ptr<const comm::Layout> layout);

// CostOfAttention, summed over the two halves, which run one after another.
absl::StatusOr<AttentionCost> CostOfShifted(const Strategy& strategy, const comm::Layout& layout,
                                            const AttentionShape& shape, int ranks_per_machine = 0);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGY_SHIFTED_ATTENTION_H_
