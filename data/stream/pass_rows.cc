#include "data/stream/pass_rows.h"

#include <utility>

#include "base/status/status_macros.h"

namespace moonring::data {

absl::StatusOr<PassRows> PassRows::Begin(const std::vector<MixedPart>& parts,
                                         const PassOptions& options, const NumpyRandom& random) {
  ASSIGN_OR_RETURN(MixedRows rows, MixedRows::Begin(parts, options.mix, random));
  PassRows pass(std::move(rows), options, random);
  for (const MixedPart& part : parts) pass.files_.push_back(part.files);
  return pass;
}

absl::StatusOr<std::optional<StreamRow>> PassRows::NextShuffled() {
  if (options_.buffer_size == 0) return rows_.Next();
  return shuffled_.Next([this] { return rows_.Next(); });
}

absl::StatusOr<std::optional<StreamRow>> PassRows::Next() {
  for (; options_.skip > 0; --options_.skip) {
    ASSIGN_OR_RETURN(const std::optional<StreamRow> row, NextShuffled());
    if (!row.has_value()) return std::nullopt;
  }
  if (options_.most == 0) return std::nullopt;
  if (options_.most.has_value()) --*options_.most;
  return NextShuffled();
}

nlohmann::json PassRows::SaveState() const {
  return {{"rows", rows_.SaveState()},
          {"shuffled", shuffled_.SaveState()},
          {"skip", options_.skip},
          {"most", options_.most.value_or(-1)}};
}

absl::Status PassRows::LoadState(const nlohmann::json& state) {
  RETURN_IF_ERROR(rows_.LoadState(state.at("rows")));
  RETURN_IF_ERROR(shuffled_.LoadState(state.at("shuffled"), files_));
  options_.skip = state.at("skip");
  const int64_t most = state.at("most");
  options_.most = most < 0 ? std::nullopt : std::optional(most);
  return absl::OkStatus();
}

}  // namespace moonring::data
