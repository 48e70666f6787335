#include "data/stream/shuffle_buffer.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "base/status/status_macros.h"
#include "data/stream/mixed_rows.h"

namespace moonring::data {
namespace {

constexpr size_t kBlock = 1000;

// Reads `row` of each element again, from its position in the files.
absl::Status ReadAgain(std::vector<StreamRow>& rows,
                       const std::vector<std::vector<std::string>>& files) {
  constexpr int64_t kNear = 1000;  // up to this distance, reading rows is faster than seeking
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t i) {
    return std::tuple(rows[i].dataset, rows[i].place.file, rows[i].place.at.rows);
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  std::unique_ptr<RowSource> source;
  const StreamRow* last = nullptr;
  for (const size_t i : order) {
    StreamRow& wanted = rows[i];
    if (last != nullptr && last->dataset == wanted.dataset &&
        last->place.file == wanted.place.file && last->place.at.rows == wanted.place.at.rows) {
      wanted.row = last->row;  // the same row occurs twice if its data set restarted
      continue;
    }
    if (last == nullptr || last->dataset != wanted.dataset) {
      ASSIGN_OR_RETURN(source, RowSource::Open(files.at(wanted.dataset)));
    }
    const RowPlace at = source->place();
    if (at.file != wanted.place.file || wanted.place.at.rows - at.at.rows > kNear)
      RETURN_IF_ERROR(source->Seek(wanted.place));
    std::optional<Row> row;
    do {
      ASSIGN_OR_RETURN(row, source->Next());
    } while (row.has_value() && row->number <= wanted.place.at.rows);
    if (!row.has_value() || row->number != wanted.place.at.rows + 1)
      return absl::FailedPreconditionError("the files are not those whose state was saved");
    wanted.row = *std::move(row);
    last = &wanted;
  }
  return absl::OkStatus();
}

}  // namespace

int64_t ShuffleBuffer::DrawPlace() {
  if (drawn_ == block_.size()) {
    before_block_ = random_;
    block_.resize(kBlock);
    for (uint32_t& place : block_) place = random_.Below(static_cast<uint64_t>(size_));
    drawn_ = 0;
  }
  return block_[drawn_++];
}

absl::StatusOr<std::optional<StreamRow>> ShuffleBuffer::Next(NextRow next_row) {
  while (!ended_) {
    ASSIGN_OR_RETURN(std::optional<StreamRow> row, next_row());
    if (!row.has_value()) {
      random_.Shuffle(rows_);
      ended_ = true;
    } else if (static_cast<int64_t>(rows_.size()) == size_) {
      return std::exchange(rows_[DrawPlace()], *std::move(row));
    } else {
      rows_.push_back(*std::move(row));
    }
  }
  if (handed_out_ == rows_.size()) return std::nullopt;
  return std::move(rows_[handed_out_++]);
}

nlohmann::json ShuffleBuffer::SaveState() const {
  nlohmann::json rows = nlohmann::json::array();
  for (size_t i = handed_out_; i < rows_.size(); ++i)
    rows.push_back({rows_[i].dataset, SavePlace(rows_[i].place)});
  const bool in_block = drawn_ < block_.size();
  return {{"rows", std::move(rows)},
          {"random", (in_block ? before_block_ : random_).state()},
          {"drawn", in_block ? drawn_ : 0},
          {"ended", ended_}};
}

absl::Status ShuffleBuffer::LoadState(const nlohmann::json& state,
                                      const std::vector<std::vector<std::string>>& files) {
  rows_.clear();
  for (const nlohmann::json& saved : state.at("rows"))
    rows_.push_back({.dataset = saved.at(0), .place = LoadPlace(saved.at(1))});
  for (const StreamRow& row : rows_) {
    if (row.dataset < 0 || row.dataset >= static_cast<int64_t>(files.size()))
      return absl::InvalidArgumentError("the saved state is broken");
  }
  RETURN_IF_ERROR(ReadAgain(rows_, files));
  random_.set_state(state.at("random").get<NumpyRandom::State>());
  block_.clear();
  drawn_ = 0;
  for (int64_t drawn = state.at("drawn"); drawn > 0; --drawn) DrawPlace();
  ended_ = state.at("ended");
  handed_out_ = 0;
  return absl::OkStatus();
}

}  // namespace moonring::data
