#ifndef MOONRING_ATTENTION_MICRO_BATCH_SHARE_H_
#define MOONRING_ATTENTION_MICRO_BATCH_SHARE_H_

// What a rank gets of a micro-batch: its rows of every per-token tensor, all by the one layout that
// the strategy asks for, and the plan by which its attention runs.
//
// Labels were shifted on the whole stream (comm/sequence.h), so targets are cut as ids are. A share
// may be empty. Nothing is communicated. Cost: that of the layout and of the plan, and a copy of
// the rank's rows.
//
// Where documents share prefixes (comm/sequence.h) their parents make the mask of all layers.

#include <memory>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "attention/attention.h"
#include "attention/mask.h"
#include "comm/layout.h"
#include "comm/mesh.h"
#include "comm/sequence.h"

namespace moonring::attention {

struct MicroBatchShare {
  at::Tensor ids_T, positions_T, targets_T;  // int64 [T_local]
  at::Tensor lengths_T;                      // of each token's document: comm::LengthsOfTokens
  std::shared_ptr<PlannedAttention> plan;
  std::shared_ptr<const comm::Layout> layout;
};

// How the documents are divided over the mesh's sp group, by the work of a layer, or under masks of
// as many as there are; windows play no part. `shifted`: where attention is shifted
// (shifted_attention.h).
absl::StatusOr<std::shared_ptr<const comm::Layout>> LayoutOf(const Attention& attention,
                                                             const comm::Mesh& mesh,
                                                             const comm::Sequence& sequence,
                                                             const LayerMasks& masks = {},
                                                             bool shifted = false);

// The share of this rank of the sp group. INVALID_ARGUMENT where masks are of other documents, and
// where two of these come together: masks, shared prefixes, shifted attention.
absl::StatusOr<MicroBatchShare> CutMicroBatch(const Attention& attention, const comm::Mesh& mesh,
                                              const comm::Sequence& sequence, LayerMasks masks = {},
                                              bool shifted = false);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_MICRO_BATCH_SHARE_H_
