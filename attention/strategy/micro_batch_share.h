#ifndef MOONRING_ATTENTION_STRATEGY_MICRO_BATCH_SHARE_H_
#define MOONRING_ATTENTION_STRATEGY_MICRO_BATCH_SHARE_H_

// A rank's share of a micro-batch: its rows of every per-token tensor, cut by the layout that the
// strategy asks for, and the plan of its attention.
//
// Labels have been shifted on the whole stream (comm/sequence.h), so targets are cut like ids. A
// share may be empty. No communication. Cost: that of the layout and of the plan, and a copy of the
// rank's rows.
//
// Where documents share prefixes (comm/sequence.h), their parents become the mask of all layers.

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
};

// How the documents are divided over the mesh's sp group, balanced by the work of one layer, or of
// as many layers as there are masks; windows are ignored. `shifted`: whether attention is shifted
// (shifted_attention.h).
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
