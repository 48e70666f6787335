// Mixes the rows of several data sets for one pass of a stream, as datasets 4.0.0's
// concatenate_datasets and interleave_datasets do for iterable data sets (data/mixing/mixer.h
// describes the strategies).
//
//   concat             the data sets one after another, in an order shuffled by the pass's
//                      generator
//   interleave_under   one row at a time, until one data set is exhausted
//   interleave_over    one row at a time, until all are exhausted; an exhausted data set restarts
//   interleave_once    one row at a time, until all are exhausted; an exhausted one is skipped
//
// For interleaving, the next data set is chosen in turn, or drawn with the pass's generator if
// there are probabilities. Unlike in data/mixing/mixer.h, the round in which mixing ends is not
// completed. Memory: an open file and one row read ahead for each data set.
#ifndef MOONRING_DATA_STREAM_MIXED_ROWS_H_
#define MOONRING_DATA_STREAM_MIXED_ROWS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/files/row_source.h"
#include "data/mixing/mixer.h"
#include "data/mixing/numpy_random.h"
#include "data/mixing/turns.h"
#include "data/stream/dataset_rows.h"
#include "data/stream/stream_row.h"

namespace moonring::data {

struct MixedPart {
  std::string name;  // of the data set, for messages
  std::vector<std::string> files;
  RowRange range;  // at least one row
};

class MixedRows {
 public:
  // `random`: the pass's generator in its initial state.
  static absl::StatusOr<MixedRows> Begin(const std::vector<MixedPart>& parts, const MixOptions& mix,
                                         const NumpyRandom& random);

  absl::StatusOr<std::optional<StreamRow>> Next();

  // The variable part of the state, for LoadState on an object created with the same arguments.
  // LoadState throws nlohmann's exceptions for malformed JSON.
  nlohmann::json SaveState() const;
  absl::Status LoadState(const nlohmann::json& state);

 private:
  struct Part {
    MixedPart of;
    std::unique_ptr<RowSource> source;
    int64_t left = 0;  // rows left in the range, including the one read ahead; negative if unknown
    std::optional<StreamRow> next;  // read ahead
    bool through = false;
  };

  MixedRows(const MixOptions& mix, Turns turns) : mix_(mix), turns_(turns) {}
  static absl::Status Restart(Part& part);
  absl::StatusOr<std::optional<StreamRow>> Read(int64_t dataset);
  absl::StatusOr<std::optional<StreamRow>> NextInterleaved();

  MixOptions mix_;
  std::vector<Part> parts_;
  Turns turns_;
  std::vector<int64_t> order_;  // concat: order of the data sets
  size_t at_ = 0;               // index in order_
};

// Converts a row's position to JSON and back.
nlohmann::json SavePlace(const RowPlace& place);
RowPlace LoadPlace(const nlohmann::json& saved);

}  // namespace moonring::data

#endif  // MOONRING_DATA_STREAM_MIXED_ROWS_H_
