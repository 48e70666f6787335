#ifndef MOONRING_ATTENTION_SHIFTED_ATTENTION_H_
#define MOONRING_ATTENTION_SHIFTED_ATTENTION_H_

// Shifted sparse attention (S2-Attn of LongLoRA, arXiv:2309.12307), with groups as LLaMA-Factory's
// shift_attn makes them: each head sees groups of tokens, and half of the heads see groups that are
// shifted by half a group, so that what a group knows reaches its neighbours in the next layer.
//
//   G = a quarter of a document's length, filled up to a multiple of 8
//   heads [0, H / 2)    groups [0, G), [G, 2 G), ...: a token sees those up to itself in its group
//   heads [H / 2, H)    the document rolled back by G / 2, then the same. So groups [G / 2, 3 G /
//   2),
//                       ..., and one that wraps round the document's end: its last G / 2 places,
//                       then its first G / 2, whose tokens see the last ones
//
// H / 2 is rounded down. Positions are the tokens' own. The last group is short where the length is
// no multiple of 8; there is nothing in the places that were filled up.
//
// There is no roll. A group is a document of its own, and where one wraps, the first G / 2 tokens
// are one whose parent are the last (mask.h). So each half of the heads is attention over documents
// under a mask, on the rows that ranks have anyway, and every strategy takes it. Rows travel
// between ranks that share a group, and no others.
//
// A kv head that both halves read goes to both. Where a half's query heads do not share its kv
// heads evenly, kv heads are repeated until they do.
//
// Cost: a quarter of causal attention's pairs, and the transfers of two attentions of half the
// heads over groups; memory besides: what comes out, and its gradients, once more (the halves'
// own).

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "attention/attention.h"
#include "attention/attention_cost.h"
#include "attention/head_split.h"
#include "attention/hybrid_attention.h"
#include "attention/mask.h"
#include "comm/layout.h"

namespace moonring::attention {

// Tokens of a group of a document; even.
int64_t ShiftedGroup(int64_t length);

// The heads of a half, and of which kv heads it reads what, in order; their number divides that of
// its query heads.
struct ShiftedHeads {
  HeadRange queries;
  std::vector<int64_t> kv;
};
std::array<ShiftedHeads, 2> SplitHalves(int64_t heads, int64_t kv_heads);

// The documents that a half of the heads sees, of the stream of documents of these lengths.
struct ShiftedDocuments {
  std::vector<int64_t> lengths;
  std::shared_ptr<const Mask> mask;  // null: they see themselves alone
};
absl::StatusOr<ShiftedDocuments> DocumentsOfHalf(absl::Span<const int64_t> lengths, int half);

// Query-key pairs of the tokens [begin, end) of a document, on average over the two halves.
double ShiftedArea(int64_t length, int64_t begin, int64_t end);

// Every layer's attention is shifted. Its Forward refuses a window. INVALID_ARGUMENT as
// Attention::Plan.
absl::StatusOr<std::unique_ptr<PlannedAttention>> PlanShifted(
    const Attention& attention, std::shared_ptr<const comm::Layout> layout);

// CostOfAttention of the two halves, one after the other.
absl::StatusOr<AttentionCost> CostOfShifted(const Strategy& strategy, const comm::Layout& layout,
                                            const AttentionShape& shape, int ranks_per_machine = 0);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_SHIFTED_ATTENTION_H_
