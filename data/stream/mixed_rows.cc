#include "data/stream/mixed_rows.h"

#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/status/status_macros.h"

namespace moonring::data {

nlohmann::json SavePlace(const RowPlace& place) {
  const RowReader::State& at = place.at;
  return {place.file, at.position.offset, at.position.line, at.position.column,
          at.rows,    at.ended ? 1 : 0};
}

RowPlace LoadPlace(const nlohmann::json& saved) {
  return {.file = saved.at(0),
          .at = {.position = {.offset = saved.at(1), .line = saved.at(2), .column = saved.at(3)},
                 .rows = saved.at(4),
                 .ended = saved.at(5) == 1}};
}

absl::StatusOr<MixedRows> MixedRows::Begin(const std::vector<MixedPart>& parts,
                                           const MixOptions& mix, const NumpyRandom& random) {
  MixedRows rows(mix, Turns(static_cast<int64_t>(parts.size()), mix.probabilities, random));
  for (const MixedPart& part : parts) {
    rows.parts_.push_back({.of = part});
    ASSIGN_OR_RETURN(rows.parts_.back().source, RowSource::Open(part.files));
    RowRange& range = rows.parts_.back().of.range;
    if (range.rows < 0) range.begin = rows.parts_.back().source->place();
    RETURN_IF_ERROR(Restart(rows.parts_.back()));
  }
  rows.order_.resize(parts.size());
  std::iota(rows.order_.begin(), rows.order_.end(), int64_t{0});
  NumpyRandom shuffles = random;
  shuffles.Shuffle(rows.order_);
  return rows;
}

absl::Status MixedRows::Restart(Part& part) {
  part.left = part.of.range.rows;
  return part.source->Seek(part.of.range.begin);
}

absl::StatusOr<std::optional<StreamRow>> MixedRows::Read(int64_t dataset) {
  Part& part = parts_[dataset];
  if (part.left == 0) return std::nullopt;
  ASSIGN_OR_RETURN(std::optional<Row> row, part.source->Next(), "data set '", part.of.name, "'");
  if (!row.has_value()) return std::nullopt;
  if (part.left > 0) --part.left;
  return StreamRow{*std::move(row), dataset, part.source->last_place()};
}

absl::StatusOr<std::optional<StreamRow>> MixedRows::Next() {
  if (parts_.size() > 1 && mix_.strategy != MixStrategy::kConcat) return NextInterleaved();
  for (; at_ < order_.size(); ++at_) {
    ASSIGN_OR_RETURN(std::optional<StreamRow> row, Read(order_[at_]));
    if (row.has_value()) return row;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<StreamRow>> MixedRows::NextInterleaved() {
  const auto through = [](const Part& part) { return part.through; };
  while (true) {
    if (mix_.strategy == MixStrategy::kInterleaveUnder ? absl::c_any_of(parts_, through)
                                                       : absl::c_all_of(parts_, through))
      return std::nullopt;
    const int64_t dataset = turns_.Next();
    Part& part = parts_[dataset];
    if (part.through && mix_.strategy == MixStrategy::kInterleaveOnce) continue;
    if (!part.next.has_value()) {
      ASSIGN_OR_RETURN(part.next, Read(dataset));
    }
    std::optional<StreamRow> row = std::exchange(part.next, std::nullopt);
    ASSIGN_OR_RETURN(part.next, Read(dataset));
    if (!part.next.has_value()) {
      part.through = true;
      RETURN_IF_ERROR(Restart(part));
    }
    return row;
  }
}

nlohmann::json MixedRows::SaveState() const {
  nlohmann::json parts = nlohmann::json::array();
  for (const Part& part : parts_) {
    const bool ahead = part.next.has_value();
    parts.push_back({SavePlace(ahead ? part.next->place : part.source->place()),
                     part.left < 0 ? -1 : part.left + ahead, part.through});
  }
  const Turns::State turns = turns_.state();
  return {
      {"parts", std::move(parts)}, {"turns", turns.turns}, {"random", turns.random}, {"at", at_}};
}

absl::Status MixedRows::LoadState(const nlohmann::json& state) {
  for (size_t d = 0; d < parts_.size(); ++d) {
    const nlohmann::json& saved = state.at("parts").at(d);
    RETURN_IF_ERROR(parts_[d].source->Seek(LoadPlace(saved.at(0))));
    parts_[d].left = saved.at(1);
    parts_[d].through = saved.at(2);
    parts_[d].next = std::nullopt;
  }
  turns_.set_state({state.at("turns"), state.at("random").get<NumpyRandom::State>()});
  at_ = state.at("at");
  return absl::OkStatus();
}

}  // namespace moonring::data
