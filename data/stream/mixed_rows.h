// One pass over the rows of several data sets, mixed as they come: datasets 4.0.0's
// concatenate_datasets and interleave_datasets of iterable data sets (data/mixing/mixer.h names the
// strategies).
//
//   concat             the data sets one after another, in an order that the pass's generator
//                      shuffles
//   interleave_under   until a data set has given its last row
//   interleave_over    until each has; one that is through begins again
//   interleave_once    until each has; one that is through is passed over
//
// In turn, or drawn with the pass's generator where there are probabilities. Unlike mixed data sets
// that are whole (data/mixing/mixer.h), in turn a round is left where a strategy ends. Cost: an
// open file and a row ahead for each data set.
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
  std::string name;  // of its data set, for messages
  std::vector<std::string> files;
  RowRange range;  // at least one row
};

class MixedRows {
 public:
  // `random`: the pass's generator, as it begins.
  static absl::StatusOr<MixedRows> Begin(const std::vector<MixedPart>& parts, const MixOptions& mix,
                                         const NumpyRandom& random);

  absl::StatusOr<std::optional<StreamRow>> Next();

  // What of it changes; LoadState on one that was begun with the same arguments. Throws what
  // nlohmann throws where the state is none.
  nlohmann::json SaveState() const;
  absl::Status LoadState(const nlohmann::json& state);

 private:
  struct Part {
    MixedPart of;
    std::unique_ptr<RowSource> source;
    int64_t left = 0;  // rows of the range, the one ahead included; negative where nobody knows
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
  std::vector<int64_t> order_;  // concat: of the data sets
  size_t at_ = 0;               // in order_
};

// JSON of a place, and back.
nlohmann::json SavePlace(const RowPlace& place);
RowPlace LoadPlace(const nlohmann::json& saved);

}  // namespace moonring::data

#endif  // MOONRING_DATA_STREAM_MIXED_ROWS_H_
