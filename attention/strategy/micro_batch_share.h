#ifndef MOONRING_ATTENTION_STRATEGY_MICRO_BATCH_SHARE_H_
#define MOONRING_ATTENTION_STRATEGY_MICRO_BATCH_SHARE_H_

// A rank's share of a micro-batch: this rank's rows of every per-token tensor, and the plan of
// attention. The strategy determines the layout, that is which rank has which rows.
//
// Targets are cut like ids: they are the labels, shifted before the stream was cut
// (comm/sequence.h). A share may be empty. No communication. Cost: that of the layout and of the
// plan, and a copy of the rank's rows.
//
// Where documents share a prefix (comm/sequence.h: the prefix is a separate document, their
// parent), the mask of all layers is made from these parents.

#include <memory>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "attention/attention.h"
#include "attention/kernels/mask.h"
#include "comm/layout.h"
#include "comm/mesh.h"
#include "comm/sequence.h"

namespace moonring::attention {

struct MicroBatchShare {
  at::Tensor ids_T, positions_T, targets_T;  // int64 [T_local]
  at::Tensor lengths_T;                      // length of each token's document
                                             // (comm::LengthsOfTokens)
  std::shared_ptr<PlannedAttention> plan;
  std::shared_ptr<const comm::Layout> layout;
  LayerMasks masks;  // of the plan
};

// Returns which rank of the mesh's sp group has which tokens. The division balances the query-key
// pairs of one layer or, with masks, the sum over one layer for each mask; windows are ignored.
// `shifted`: whether attention is shifted (shifted_attention.h).
absl::StatusOr<std::shared_ptr<const comm::Layout>> LayoutOf(const Attention& attention,
                                                             const comm::Mesh& mesh,
                                                             const comm::Sequence& sequence,
                                                             const LayerMasks& masks = {},
                                                             bool shifted = false);

// The share of this rank in the sp group. INVALID_ARGUMENT where masks are for other documents, or
// where two of these are combined: masks, shared prefixes, shifted attention.
absl::StatusOr<MicroBatchShare> CutMicroBatch(const Attention& attention, const comm::Mesh& mesh,
                                              const comm::Sequence& sequence, LayerMasks masks = {},
                                              bool shifted = false);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGY_MICRO_BATCH_SHARE_H_
