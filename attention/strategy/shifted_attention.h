#ifndef MOONRING_ATTENTION_STRATEGY_SHIFTED_ATTENTION_H_
#define MOONRING_ATTENTION_STRATEGY_SHIFTED_ATTENTION_H_

// Shifted sparse attention (S2-Attn of LongLoRA, arXiv:2309.12307), with groups as in
// LLaMA-Factory's shift_attn. Each head attends within groups of tokens. For half of the heads the
// groups are shifted by half a group, so that information passes between neighbouring groups in the
// next layer.
//
//   G = a quarter of a document's length, padded to a multiple of 8
//   heads [0, H / 2)    groups [0, G), [G, 2 G), ...: causal attention within each group
//   heads [H / 2, H)    attention as above with groups that begin G / 2 later: [G / 2, 3 G / 2),
//                       ..., and one that wraps around the document's end: its last G / 2 tokens,
//                       then its first G / 2, which attend to the last ones
//
// H is the number of query heads; H / 2 is rounded down. Positions (for the rotary embedding) are
// not shifted. The last group is shorter where the length is not a multiple of 8; no padding tokens
// are added.
//
// LLaMA-Factory shifts by rolling the tensors; here no tensor is moved. A group is treated as a
// separate document. The group that wraps around is two documents: the last G / 2 tokens are the
// parent of the first G / 2 tokens, which attend to them (mask.h). So each half of the heads
// computes attention over documents under a mask, every rank keeps its rows, and every strategy
// supports it. Only ranks that share a group send rows to each other.
//
// A kv head that query heads of both halves read belongs to both halves. Where kv heads of a half
// have different numbers of query heads in this half, kv heads are repeated until the numbers are
// equal.
//
// Cost: a quarter of causal attention's query-key pairs, and the transfers of two attention calls
// over groups, each with half of the heads. Additional memory: the output and its gradients exist
// twice, per half and joined.

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

// The groups of one half of the heads, as documents: their lengths and their mask.
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
