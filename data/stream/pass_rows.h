// The rows of one lane (the counterpart of one data loading worker, example_stream.h) in one pass
// of a stream: mixed (data/stream/mixed_rows.h), shuffled in a buffer
// (data/stream/shuffle_buffer.h), and restricted to [skip, skip + most).
#ifndef MOONRING_DATA_STREAM_PASS_ROWS_H_
#define MOONRING_DATA_STREAM_PASS_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/mixing/mixer.h"
#include "data/mixing/numpy_random.h"
#include "data/stream/mixed_rows.h"
#include "data/stream/shuffle_buffer.h"
#include "data/stream/stream_row.h"

namespace moonring::data {

struct PassOptions {
  MixOptions mix;
  int64_t buffer_size = 0;      // 0: no shuffling
  int64_t skip = 0;             // number of first rows to skip, after shuffling
  std::optional<int64_t> most;  // maximum number of rows after the skipped ones
};

class PassRows {
 public:
  static absl::StatusOr<PassRows> Begin(const std::vector<MixedPart>& parts,
                                        const PassOptions& options, const NumpyRandom& random);

  absl::StatusOr<std::optional<StreamRow>> Next();

  // Save and restore the position in the pass, as in MixedRows.
  nlohmann::json SaveState() const;
  absl::Status LoadState(const nlohmann::json& state);

 private:
  PassRows(MixedRows rows, const PassOptions& options, const NumpyRandom& random)
      : rows_(std::move(rows)), options_(options), shuffled_(options.buffer_size, random) {}
  absl::StatusOr<std::optional<StreamRow>> NextShuffled();

  MixedRows rows_;
  PassOptions options_;  // skip and most are counted down
  ShuffleBuffer shuffled_;
  std::vector<std::vector<std::string>> files_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STREAM_PASS_ROWS_H_
