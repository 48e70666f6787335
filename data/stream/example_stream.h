// Examples of data sets that are read as they are used, pass after pass, never all in memory:
// LLaMA-Factory 0.9.5's `streaming: true`, row for row.
//
//   rows of all data sets, mixed -> shuffle buffer -> without (or only) the first `held_out` ->
//       batches of preprocessing_batch_size rows -> examples
//
// Pass e shuffles with numpy's default_rng(seed) where e is 0, else
// default_rng(default_rng(seed).integers(2^63) - e), as datasets' set_epoch has it. From the second
// pass on other rows come first: what was held out of the first is then met in training, as in
// LLaMA-Factory.
//
// Lanes are what its dataloader_num_workers processes are: each reads its contiguous part of every
// data set with a buffer of its own (which part, the pass's generator shuffles) and holds out its
// part of `held_out`; batches are taken from the lanes in turn, those that are through passed over.
// One lane where dataloader_num_workers is 0 (there LLaMA-Factory has no rows at all).
//
// num_samples of a description says nothing to a stream, as there. Fails as data/dataset.h does,
// but that a column which only some rows have is not missed, and that a pass without any example
// ends the stream with an error. Cost: for each lane buffer_size rows, one batch of rows and its
// examples; with several lanes a pass over the files before the first row, to count them.
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
  DatasetOptions dataset;  // without max_samples
  int64_t buffer_size = 16384;
  bool shuffle = true;
  int64_t lanes = 1;
  int64_t held_out = 0;        // rows of a pass
  bool only_held_out = false;  // these rows, not the others
};

class ExampleStream {
 public:
  static absl::StatusOr<std::unique_ptr<ExampleStream>> Create(
      StreamOptions options, std::shared_ptr<const Tokenizer> tokenizer);

  // The beginning of a pass, from 0. To be called before the first batch.
  absl::Status BeginPass(int64_t pass);

  // The next `most` examples, of one lane, fewer at its end; none at the end of the pass.
  absl::StatusOr<std::vector<Example>> NextBatch(int64_t most);

  // Whether no example of the pass is left.
  absl::StatusOr<bool> AtEnd();

  // Fails where what was read so far holds no example, or none to learn from.
  absl::Status Check() const { return builder_.Check(); }

  // Of the rows read so far: those of all passes, some of which are ahead of the examples handed
  // out. Any thread may ask.
  DatasetReport report() const;
  // Of the rows read so far. Not beside NextBatch on another thread.
  const std::vector<RowUse>& uses() const { return builder_.uses(); }

  std::string Names() const;  // of its data sets
  int64_t lanes() const { return options_.lanes; }

  // As a Source's, in a pass. Several lines; the first is JSON. The rows of the batches that
  // examples were being taken from are read again, and refused (FAILED_PRECONDITION) where they
  // give other examples than they gave: another text, another template.
  std::string SaveState() const;
  absl::Status LoadState(absl::string_view state);

 private:
  struct Lane {
    PassRows rows;
    std::deque<Example> ready;  // of a batch of rows
    std::string before;         // the state of `rows` before that batch
    int64_t taken = 0;          // of its examples
    std::string digest;         // of all of these
    bool ended = false;         // no batch comes after it
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
  std::vector<DatasetRows> counted_;  // of each data set, where there are several lanes
  const RowEncoder encoder_;
  ExampleBuilder builder_;
  OrderedMap<StreamRow, absl::StatusOr<EncodedRow>> encoding_;
  std::vector<std::set<std::string>> keys_;  // of each data set's first rows
  bool checked_keys_ = false;
  int64_t pass_ = 0;
  size_t turn_ = 0;  // the lane that is next
  std::deque<Lane> lanes_;

  mutable std::mutex mutex_;
  DatasetReport report_;  // under mutex_
};

// The examples of one pass, in the order in which the lanes give batches of `batch`.
absl::StatusOr<PreparedDataset> OnePass(ExampleStream& stream, int64_t batch);

}  // namespace moonring::data

#endif  // MOONRING_DATA_STREAM_EXAMPLE_STREAM_H_
