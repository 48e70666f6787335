#include "attention/strategy/micro_batch_share.h"

#include <utility>
#include <vector>

#include "attention/kernels/tile_plan.h"
#include "attention/strategy/shifted_attention.h"
#include "base/status/status_macros.h"

namespace moonring::attention {
namespace {

// The masks of all layers: the given ones, or the one that follows from shared prefixes.
absl::StatusOr<LayerMasks> MasksOf(const comm::Sequence& sequence, LayerMasks masks, bool shifted) {
  RETURN_IF_ERROR(Validate(masks, sequence.lengths));
  if (shifted && !masks.empty())
    return absl::InvalidArgumentError(
        "shifted attention takes no masks: its groups are a mask themselves");
  if (!sequence.shares_prefixes()) return masks;
  if (shifted) {
    return absl::InvalidArgumentError(
        "shifted attention takes no shared prefixes: its groups are a mask themselves");
  }
  if (!masks.empty())
    return absl::InvalidArgumentError(
        "shared prefixes take no masks: their parents are a mask themselves");
  std::vector<DocumentMask> documents;
  for (const comm::Parent& parent : sequence.parents)
    documents.push_back({.parent = parent.document, .parent_tokens = parent.tokens});
  ASSIGN_OR_RETURN(auto mask, Mask::Create(sequence.lengths, std::move(documents)));
  return LayerMasks{std::move(mask)};
}

absl::StatusOr<std::shared_ptr<const comm::Layout>> LayoutUnder(const LayerMasks& masks,
                                                                const Attention& attention,
                                                                const comm::Mesh& mesh,
                                                                const comm::Sequence& sequence,
                                                                bool shifted) {
  const auto cost = [&](int64_t document, int64_t begin, int64_t end) {
    if (shifted) return ShiftedArea(sequence.lengths[document], begin, end);
    if (masks.empty()) return CausalTileArea(document, begin, end);
    double area = 0;
    for (const auto& mask : masks) area += mask->Area(document, begin, end);
    return area;
  };
  return mesh.MakeLayout(sequence.lengths, attention.Divide(sequence.lengths), cost);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const comm::Layout>> LayoutOf(const Attention& attention,
                                                             const comm::Mesh& mesh,
                                                             const comm::Sequence& sequence,
                                                             const LayerMasks& given,
                                                             bool shifted) {
  ASSIGN_OR_RETURN(const LayerMasks masks, MasksOf(sequence, given, shifted));
  return LayoutUnder(masks, attention, mesh, sequence, shifted);
}

absl::StatusOr<MicroBatchShare> CutMicroBatch(const Attention& attention, const comm::Mesh& mesh,
                                              const comm::Sequence& sequence, LayerMasks given,
                                              bool shifted) {
  ASSIGN_OR_RETURN(LayerMasks masks, MasksOf(sequence, std::move(given), shifted));
  ASSIGN_OR_RETURN(auto layout, LayoutUnder(masks, attention, mesh, sequence, shifted));
  ASSIGN_OR_RETURN(std::unique_ptr<PlannedAttention> plan,
                   shifted ? PlanShifted(attention, layout) : attention.Plan(layout, masks));
  const auto cut = [&](const at::Tensor& stream_T) {
    return layout->Cut(stream_T, mesh.sp_rank());
  };
  return MicroBatchShare{cut(sequence.ids_T),     cut(sequence.positions_T),
                         cut(sequence.targets_T), cut(comm::LengthsOfTokens(sequence)),
                         std::move(plan),         layout,
                         std::move(masks)};
}

}  // namespace moonring::attention
