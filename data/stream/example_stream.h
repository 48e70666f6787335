// Streams examples of data sets that are read during training, pass after pass, and never entirely
// in memory. Equal to LLaMA-Factory 0.9.5's `streaming: true`, row for row.
//
//   rows of all data sets, mixed -> shuffle buffer -> without (or only) the first `held_out` ->
//       batches of preprocessing_batch_size rows -> examples
//
// Pass e shuffles with numpy's default_rng(seed) if e is 0, otherwise with
// default_rng(default_rng(seed).integers(2^63) - e), as set_epoch of the datasets library does. The
// first `held_out` rows differ between passes, so rows held out of the first pass are trained in
// later ones, as in LLaMA-Factory.
//
// Lanes correspond to LLaMA-Factory's dataloader_num_workers processes: each reads a contiguous
// shard of every data set with its own buffer (the pass's generator shuffles the assignment of
// shards) and holds out its share of `held_out`. Batches are taken from the lanes in turn;
// exhausted lanes are skipped. With dataloader_num_workers 0 there is one lane (LLaMA-Factory then
// has no rows at all).
//
// num_samples of a description has no effect on streams, as in LLaMA-Factory. Errors are those of
// data/dataset.h, with two differences: a column that only some rows have is not reported as
// missing, and a pass without any example ends the stream with an error. Memory per lane:
// buffer_size rows, one batch of rows, and its examples. With several lanes, the files are read
// once beforehand to count their rows.
#ifndef MOONRING_DATA_STREAM_EXAMPLE_STREAM_H_
#define MOONRING_DATA_STREAM_EXAMPLE_STREAM_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/dataset_options.h"
#include "data/dataset_report.h"
#include "data/description/dataset_info.h"
#include "data/example.h"
#include "data/example_builder.h"
#include "data/pipeline/ordered_map.h"
#include "data/row_encoder.h"
#include "data/stream/dataset_rows.h"
#include "data/stream/pass_rows.h"
#include "data/stream/stream_row.h"
#include "data/text/chat_template.h"
#include "data/text/tokenizer.h"

namespace moonring::data {

struct StreamOptions {
  DatasetOptions dataset;  // max_samples must not be set
  int64_t buffer_size = 16384;
  bool shuffle = true;
  int64_t lanes = 1;
  int64_t held_out = 0;        // number of rows of each pass
  bool only_held_out = false;  // stream the held-out rows instead of the others
};

class ExampleStream {
 public:
  static absl::StatusOr<std::unique_ptr<ExampleStream>> Create(
      StreamOptions options, std::shared_ptr<const Tokenizer> tokenizer);

  // Begins a pass, numbered from 0. Must be called before the first batch.
  absl::Status BeginPass(int64_t pass);

  // Returns the next `most` examples of one lane; fewer at the lane's end, and none at the end of
  // the pass.
  absl::StatusOr<std::vector<Example>> NextBatch(int64_t most);

  // Whether the pass has no more examples.
  absl::StatusOr<bool> AtEnd();

  // Fails if the rows read so far produced no example, or none with labels.
  absl::Status Check() const { return builder_.Check(); }

  // Report of the rows read so far in all passes, including those read ahead of the returned
  // examples. Thread-safe.
  DatasetReport report() const;
  // The outcome of each row read so far. Must not be called concurrently with NextBatch.
  const std::vector<RowUse>& uses() const { return builder_.uses(); }

  std::string Names() const;  // of the data sets, for messages
  int64_t lanes() const { return options_.lanes; }

  // Save and restore the position within a pass, as in Source. The state has several lines; the
  // first is JSON. LoadState rereads the rows of the current batches, and fails
  // (FAILED_PRECONDITION) if they produce other examples because a file or the template has
  // changed.
  std::string SaveState() const;
  absl::Status LoadState(absl::string_view state);

 private:
  struct Lane {
    PassRows rows;
    std::deque<Example> ready;  // of the current batch of rows
    std::string before;         // state of `rows` before that batch
    int64_t taken = 0;          // examples of the batch already returned
    std::string digest;         // of all examples of the batch
    bool ended = false;         // no further batches
  };

  ExampleStream(StreamOptions options, ChatTemplate chat_template,
                std::vector<DatasetDescription> descriptions);
  absl::StatusOr<std::deque<Lane>> MakeLanes(int64_t pass) const;
  absl::StatusOr<PassRows> MakeRows(int64_t lane, int64_t part, int64_t pass) const;
  absl::Status Fill(Lane& lane);
  absl::Status Refill(Lane& lane, const std::string& digest);
  absl::Status ReadBatch(Lane& lane);
  void NoteKeys(const StreamRow& row);
  absl::Status CheckKeys();
  std::string Identity() const;

  const StreamOptions options_;
  const ChatTemplate template_;
  const std::vector<DatasetDescription> descriptions_;
  std::vector<DatasetRows> counted_;  // one per data set, with several lanes
  const RowEncoder encoder_;
  ExampleBuilder builder_;
  OrderedMap<StreamRow, absl::StatusOr<EncodedRow>> encoding_;
  std::vector<std::set<std::string>> keys_;  // keys of the first rows of each data set
  bool checked_keys_ = false;
  int64_t pass_ = 0;
  size_t turn_ = 0;  // the next lane
  std::deque<Lane> lanes_;

  mutable std::mutex mutex_;
  DatasetReport report_;  // guarded by mutex_
};

// All examples of one pass, in the order in which NextBatch(batch) returns them.
absl::StatusOr<PreparedDataset> OnePass(ExampleStream& stream, int64_t batch);

}  // namespace moonring::data

#endif  // MOONRING_DATA_STREAM_EXAMPLE_STREAM_H_
