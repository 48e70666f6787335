#include "attention/strategy/auto_attention.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "attention/kernels/tile_plan.h"
#include "comm/layout.h"

namespace moonring::attention {
namespace {

constexpr size_t kRememberedChoices = 16;
constexpr double kNear = 1.05;
constexpr double kMergingSpeed = 0.87;

double SecondsOf(const Traffic& traffic, const MachineModel& machine) {
  return static_cast<double>(traffic.bytes - traffic.far_bytes) / machine.near_bytes +
         static_cast<double>(traffic.far_bytes) / machine.far_bytes;
}

double TransferSeconds(const AttentionCost& cost, const MachineModel& machine) {
  double most = 0;
  for (const RankCost& rank : cost)
    most = std::max(most, SecondsOf(rank.forward(), machine) + SecondsOf(rank.backward(), machine));
  return most;
}

int64_t MostBytes(const AttentionCost& cost) {
  int64_t most = 0;
  for (const RankCost& rank : cost)
    most = std::max(most, rank.forward().bytes + rank.backward().bytes);
  return most;
}

}  // namespace

double EstimateSeconds(const AttentionCost& cost, const AttentionShape& shape,
                       const MachineModel& machine) {
  const auto key = static_cast<double>(shape.dims().key),
             value = static_cast<double>(shape.dims().value);
  double slowest = 0;
  for (const RankCost& rank : cost) {
    const double seconds_of_area =
        rank.tile_area / (machine.flops * (rank.merges ? kMergingSpeed : 1.0));
    double seconds = 0;
    // The share of the transfers that does not overlap with the computation of tiles.
    const double waited =
        rank.waits_for_keys ? 1.0 / static_cast<double>(rank.context_forward.exchanges) : 0.0;
    const auto pass = [&](const Traffic& exchange, const Traffic& context, double compute_seconds) {
      const double travelling = SecondsOf(context, machine);
      seconds +=
          SecondsOf(exchange, machine) + waited * travelling +
          std::max(compute_seconds, (1 - waited) * travelling) +
          static_cast<double>(exchange.exchanges + context.exchanges) * machine.latency_seconds;
    };
    pass(rank.exchange_forward, rank.context_forward, (2 * key + 2 * value) * seconds_of_area);
    pass(rank.exchange_backward, rank.context_backward, (6 * key + 4 * value) * seconds_of_area);
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

const AutoAttention::Choice& AutoAttention::Choose(absl::Span<const int64_t> lengths) const {
  const auto known = absl::c_find_if(
      choices_, [&](const Choice& choice) { return absl::c_equal(choice.lengths, lengths); });
  if (known != choices_.end()) return *known;
  Choice choice{.lengths = {lengths.begin(), lengths.end()}};
  std::vector<double> seconds, transfer_seconds;
  std::vector<std::string> figures;
  for (const auto& candidate : candidates_) {
    const auto layout =
        comm::Layout::Create(choice.lengths, candidate->strategy().division, CausalTileArea);
    const AttentionCost cost =
        EstimateCost(candidate->strategy(), **layout, shape_, ranks_per_machine_);
    seconds.push_back(EstimateSeconds(cost, shape_, machine_));
    transfer_seconds.push_back(TransferSeconds(cost, machine_));
    figures.push_back(absl::StrFormat("%s %.3g ms, balance %.2f, %.1f MB sent",
                                      DescribeStrategy(candidate->strategy()), seconds.back() * 1e3,
                                      Balance(cost), static_cast<double>(MostBytes(cost)) / 1e6));
  }
  const double bound = kNear * *absl::c_min_element(seconds);
  double least = std::numeric_limits<double>::infinity();
  for (size_t c = 0; c < candidates_.size(); ++c) {
    if (seconds[c] <= bound && transfer_seconds[c] < least)
      least = transfer_seconds[c], choice.attention = candidates_[c].get();
  }
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  choice.why =
      absl::StrCat("auto chose ", DescribeStrategy(choice.attention->strategy()), " for ",
                   lengths.size(), lengths.size() == 1 ? " document" : " documents", " of ", tokens,
                   " tokens; a layer's attention, at the slowest rank, by estimate:");
  for (const std::string& figure : figures)
    absl::StrAppend(&choice.why, &figure == &figures.front() ? " " : "; ", figure);
  if (choices_.size() == kRememberedChoices) choices_.erase(choices_.begin());
  choices_.push_back(std::move(choice));
  return choices_.back();
}

comm::Division AutoAttention::Divide(absl::Span<const int64_t> lengths) const {
  return Choose(lengths).attention->strategy().division;
}

absl::StatusOr<std::unique_ptr<PlannedAttention>> AutoAttention::Plan(
    std::shared_ptr<const comm::Layout> layout, LayerMasks masks) const {
  return Choose(layout->lengths()).attention->Plan(std::move(layout), std::move(masks));
}

std::string AutoAttention::Describe(absl::Span<const int64_t> lengths) const {
  return Choose(lengths).why;
}

std::optional<std::string> AutoAttention::Chosen(absl::Span<const int64_t> lengths) const {
  return DescribeStrategy(Choose(lengths).attention->strategy());
}

}  // namespace moonring::attention
