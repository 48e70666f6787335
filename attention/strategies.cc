#include "attention/strategies.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "attention/dense_attention.h"
#include "attention/device_block_attention.h"
#include "attention/ring_attention.h"
#include "attention/tile_plan.h"
#include "attention/ulysses_attention.h"

namespace moonring::attention {
namespace {

constexpr std::array<absl::string_view, 4> kStrategies = {"dense", "ulysses", "ring", "zigzag-ring"};

absl::Status CheckStrategy(absl::string_view strategy, int ranks) {
  if (std::find(kStrategies.begin(), kStrategies.end(), strategy) == kStrategies.end()) {
    return absl::InvalidArgumentError(absl::StrCat("unknown attention \"", strategy, "\"; known are ", absl::StrJoin(kStrategies, ", ")));
  }
  if (strategy == "dense" && ranks != 1) return absl::InvalidArgumentError(absl::StrCat("dense attention works on one rank, the group has ", ranks));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> CreateAttention(AttentionOptions options) {
  if (options.group == nullptr) return absl::InvalidArgumentError("attention: no group of ranks was given");
  if (const absl::Status status = CheckStrategy(options.strategy, options.group->size()); !status.ok()) return status;
  std::shared_ptr<const BlockAttention> block = options.block ? std::move(options.block) : std::make_shared<DeviceBlockAttention>();
  if (options.group->size() == 1) return std::make_unique<DenseAttention>(std::move(block));
  if (options.strategy == "ulysses") return std::make_unique<UlyssesAttention>(std::move(options.group), std::move(block));
  const comm::Ownership ownership = options.strategy == "ring" ? comm::Ownership::kContiguous : comm::Ownership::kZigzag;
  return std::make_unique<RingAttention>(ownership, std::move(options.group), std::move(block));
}

absl::StatusOr<AttentionCost> CostOfAttention(const std::string& strategy, const comm::Layout& layout, const AttentionShape& shape) {
  if (const absl::Status status = CheckStrategy(strategy, layout.ranks()); !status.ok()) return status;
  if (layout.ranks() > 1) return strategy == "ulysses" ? UlyssesCost(layout, shape) : RingCost(layout, shape);
  return AttentionCost{{.tile_area = PlanWholeDocuments(layout.lengths()).area() * static_cast<double>(shape.heads)}};
}

}  // namespace moonring::attention
