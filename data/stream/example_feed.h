// Builds examples from rows that are passed in one by one, for data sources written in Lua.
//
//   feed.Add(row); ..; feed.EndBatch(); while (feed.ready() >= n) feed.Take(n)   a stream
//   feed.Add(row); ..; std::move(feed).Finish()                                  a data set
//
// Rows are encoded on background threads; examples come in row order, by the rules of
// data/example_builder.h. Rows between two calls of EndBatch, at most preprocessing_batch_size of
// them, are processed together: joined, packed, or (kto) paired with each other's answers. Add or
// EndBatch reports errors of a row as `NAME (row N): message`.
//
// The digest (a hash) covers all rows of the pass so far. It shows whether ranks have the same
// rows, or whether the rows are the same before and after an interruption. Memory: the rows and
// examples between two calls of Take.
#ifndef MOONRING_DATA_STREAM_EXAMPLE_FEED_H_
#define MOONRING_DATA_STREAM_EXAMPLE_FEED_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/dataset_options.h"
#include "data/dataset_report.h"
#include "data/example.h"
#include "data/example_builder.h"
#include "data/files/row.h"
#include "data/pipeline/ordered_map.h"
#include "data/row_encoder.h"
#include "data/stream/given_rows.h"
#include "data/text/chat_template.h"
#include "data/text/json/python_json.h"
#include "data/text/tokenizer.h"

namespace moonring::data {

struct FeedOptions {
  DatasetOptions dataset;                  // the first of its names is used for rows in messages
  std::optional<OrderedJson> description;  // how rows are converted (data/stream/given_rows.h)
  bool prepared = false;  // rows are examples that were tokenized before (data/example_table.h)
};

class ExampleFeed {
 public:
  static absl::StatusOr<std::unique_ptr<ExampleFeed>> Create(
      FeedOptions options, std::shared_ptr<const Tokenizer> tokenizer);

  // From now on, rejects ids >= `ids`, for which the model has no embedding.
  void LimitIds(int64_t ids) { vocabulary_ = ids; }

  // Begins a pass, or resumes it after `rows` rows with the given digest.
  void Begin(int64_t rows, std::string digest);

  absl::Status Add(OrderedJson row);
  // Skips a row whose examples were used before the interruption: it is only counted and added to
  // the digest.
  absl::Status PassOver(const OrderedJson& row);
  absl::Status EndBatch();

  int64_t ready() const { return static_cast<int64_t>(ready_.size()); }
  // Removes and returns the first `most` ready examples, or all if there are fewer.
  std::vector<Example> Take(int64_t most);
  absl::StatusOr<PreparedDataset> Finish() &&;

  int64_t rows() const { return rows_; }  // rows of the pass
  const std::string& digest() const { return digest_; }
  // Digests of the rows since the last call, and of the examples of the last batch.
  std::vector<std::string> TakeRowDigests();
  const std::string& batch_digest() const { return batch_digest_; }

  // INVALID_ARGUMENT, with the reasons for skipping rows, if all rows together produced no example,
  // or none with labels.
  absl::Status Check() const { return builder_.Check(); }
  const DatasetReport& report() const { return builder_.report(); }
  bool joins_rows() const;  // whether the rows of a batch are combined

 private:
  struct Given {
    Row row;
    const DatasetDescription* description;  // null: token ids
  };

  ExampleFeed(FeedOptions options, ChatTemplate chat_template, GivenRows given);
  absl::StatusOr<EncodedRow> Encode(const Given& given) const;
  absl::Status TakeEncoded();
  absl::Status AddPrepared(const OrderedJson& row, const std::string& where);
  void Count(const OrderedJson& row);

  const FeedOptions options_;
  const ChatTemplate template_;
  const GivenRows given_;
  const RowEncoder encoder_;
  ExampleBuilder builder_;
  std::optional<int64_t> vocabulary_;
  int64_t rows_ = 0;
  std::string digest_, batch_digest_;
  std::vector<std::string> row_digests_;
  std::deque<Example> ready_;
  // last member: its threads end before other members are destroyed
  OrderedMap<Given, absl::StatusOr<EncodedRow>> encoding_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STREAM_EXAMPLE_FEED_H_
