// A stream's rows in a random order out of a buffer: datasets 4.0.0's
// IterableDataset.shuffle(buffer_size).
//
// The buffer is filled; then each further row takes the place of one drawn at random, which is
// handed out. After the last row what is left in the buffer is shuffled and handed out. Places are
// drawn in blocks of 1000, so that the shuffle comes after whole blocks.
//
// A state holds where the buffered rows are, not the rows: LoadState reads them again. Cost:
// buffer_size rows of memory.
#ifndef MOONRING_DATA_STREAM_SHUFFLE_BUFFER_H_
#define MOONRING_DATA_STREAM_SHUFFLE_BUFFER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/mixing/numpy_random.h"
#include "data/stream/stream_row.h"

namespace moonring::data {

class ShuffleBuffer {
 public:
  using NextRow = absl::FunctionRef<absl::StatusOr<std::optional<StreamRow>>()>;

  // `random`: the pass's generator, as it begins.
  ShuffleBuffer(int64_t size, const NumpyRandom& random) : size_(size), random_(random) {}

  absl::StatusOr<std::optional<StreamRow>> Next(NextRow next_row);

  // As MixedRows'. `files`: of each data set.
  nlohmann::json SaveState() const;
  absl::Status LoadState(const nlohmann::json& state,
                         const std::vector<std::vector<std::string>>& files);

 private:
  int64_t DrawPlace();

  int64_t size_;
  std::vector<StreamRow> rows_;
  NumpyRandom random_;
  NumpyRandom before_block_ = random_;  // as it was when block_ was drawn
  std::vector<uint32_t> block_;         // places drawn
  size_t drawn_ = 0;                    // of block_
  bool ended_ = false;                  // no row comes any more
  size_t handed_out_ = 0;               // of rows_, after that
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STREAM_SHUFFLE_BUFFER_H_
