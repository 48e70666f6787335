// The rows of one pass over a stream that one of its lanes takes: mixed (data/stream/mixed_rows.h),
// shuffled in a buffer (data/stream/shuffle_buffer.h), without the first ones or no more than them.
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
  int64_t buffer_size = 0;      // 0: the rows stay in their order
  int64_t skip = 0;             // rows passed over, in the order that the buffer gives
  std::optional<int64_t> most;  // rows after them
};

class PassRows {
 public:
  static absl::StatusOr<PassRows> Begin(const std::vector<MixedPart>& parts,
                                        const PassOptions& options, const NumpyRandom& random);

  absl::StatusOr<std::optional<StreamRow>> Next();

  // As MixedRows'.
  nlohmann::json SaveState() const;
  absl::Status LoadState(const nlohmann::json& state);

 private:
  PassRows(MixedRows rows, const PassOptions& options, const NumpyRandom& random)
      : rows_(std::move(rows)), options_(options), shuffled_(options.buffer_size, random) {}
  absl::StatusOr<std::optional<StreamRow>> NextShuffled();

  MixedRows rows_;
  PassOptions options_;  // skip and most count down
  ShuffleBuffer shuffled_;
  std::vector<std::vector<std::string>> files_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STREAM_PASS_ROWS_H_
