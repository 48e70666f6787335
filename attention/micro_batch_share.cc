#include "attention/micro_batch_share.h"

#include <utility>

#include "attention/tile_plan.h"
#include "comm/status/status_macros.h"

namespace moonring::attention {

absl::StatusOr<std::shared_ptr<const comm::Layout>> LayoutOf(const Attention& attention,
                                                             const comm::Mesh& mesh,
                                                             const comm::Sequence& sequence) {
  return mesh.MakeLayout(sequence.lengths, attention.Divide(sequence.lengths), CausalTileArea);
}

absl::StatusOr<MicroBatchShare> CutMicroBatch(const Attention& attention, const comm::Mesh& mesh,
                                              const comm::Sequence& sequence) {
  ASSIGN_OR_RETURN(auto layout, LayoutOf(attention, mesh, sequence));
  ASSIGN_OR_RETURN(std::unique_ptr<PlannedAttention> plan, attention.Plan(layout));
  const auto cut = [&](const at::Tensor& stream_T) {
    return layout->Cut(stream_T, mesh.sp_rank());
  };
  return MicroBatchShare{cut(sequence.ids_T),     cut(sequence.positions_T),
                         cut(sequence.targets_T), cut(comm::LengthsOfTokens(sequence)),
                         std::move(plan),         layout};
}

}  // namespace moonring::attention
