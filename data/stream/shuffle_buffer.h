// Shuffles a stream's rows with a buffer, as datasets 4.0.0's IterableDataset.shuffle(buffer_size).
//
// Once the buffer is full, each new row replaces a randomly drawn one, which is returned. After the
// last row, the rest of the buffer is shuffled and returned. Indices are drawn in blocks of 1000,
// so the final shuffle comes after a whole number of blocks.
//
// A saved state contains the positions of the buffered rows, not the rows: LoadState reads the rows
// again. Memory: buffer_size rows.
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

  // `random`: the pass's generator in its initial state.
  ShuffleBuffer(int64_t size, const NumpyRandom& random) : size_(size), random_(random) {}

  absl::StatusOr<std::optional<StreamRow>> Next(NextRow next_row);

  // Save and restore the position, as in MixedRows. `files`: the files of each data set.
  nlohmann::json SaveState() const;
  absl::Status LoadState(const nlohmann::json& state,
                         const std::vector<std::vector<std::string>>& files);

 private:
  int64_t DrawPlace();

  int64_t size_;
  std::vector<StreamRow> rows_;
  NumpyRandom random_;
  NumpyRandom before_block_ = random_;  // state before block_ was drawn
  std::vector<uint32_t> block_;         // drawn indices
  size_t drawn_ = 0;                    // used indices of block_
  bool ended_ = false;                  // the input is exhausted
  size_t handed_out_ = 0;               // rows of rows_ returned since then
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STREAM_SHUFFLE_BUFFER_H_
