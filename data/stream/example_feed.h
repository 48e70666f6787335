// Examples of rows that are handed in one by one: what a script's source of data feeds.
//
//   feed.Add(row); ..; feed.EndBatch(); while (feed.ready() >= n) feed.Take(n)   a stream
//   feed.Add(row); ..; std::move(feed).Finish()                                  a data set
//
// Rows are encoded on threads while more are handed in; examples come in the order of the rows, by
// the rules of data/example_builder.h. Rows between two calls of EndBatch are joined, packed or
// mismatched together, preprocessing_batch_size of them at most. What is wrong with a row comes out
// of Add or EndBatch, `NAME (row N): words`.
//
// The digest is of all rows of the pass so far: equal where the rows are, on all ranks or before
// and after an interruption. Cost: the rows and examples between two calls of Take.
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
  DatasetOptions dataset;  // of its names, the first says what rows are called in messages
  std::optional<OrderedJson> description;  // of its rows (data/stream/given_rows.h)
  bool prepared = false;  // rows are examples that were prepared before (data/example_table.h)
};

class ExampleFeed {
 public:
  static absl::StatusOr<std::unique_ptr<ExampleFeed>> Create(
      FeedOptions options, std::shared_ptr<const Tokenizer> tokenizer);

  // Ids at or above `ids` are refused from now on: the model has no row for them.
  void LimitIds(int64_t ids) { vocabulary_ = ids; }

  // A pass begins, or goes on behind `rows` rows whose digest is given.
  void Begin(int64_t rows, std::string digest);

  absl::Status Add(OrderedJson row);
  // A row whose examples were taken before: counted, and part of the digest, nothing else.
  absl::Status PassOver(const OrderedJson& row);
  absl::Status EndBatch();

  int64_t ready() const { return static_cast<int64_t>(ready_.size()); }
  // The first `most` examples that are ready; fewer where there are no more.
  std::vector<Example> Take(int64_t most);
  absl::StatusOr<PreparedDataset> Finish() &&;

  int64_t rows() const { return rows_; }  // of the pass
  const std::string& digest() const { return digest_; }
  // Of each row since the last call, and of the examples of the last batch.
  std::vector<std::string> TakeRowDigests();
  const std::string& batch_digest() const { return batch_digest_; }

  // INVALID_ARGUMENT, with why rows are left out, where all rows together gave no example, or none
  // to learn from.
  absl::Status Check() const { return builder_.Check(); }
  const DatasetReport& report() const { return builder_.report(); }
  bool joins_rows() const;  // of a batch: they are prepared together

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
  OrderedMap<Given, absl::StatusOr<EncodedRow>> encoding_;  // its threads end first
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STREAM_EXAMPLE_FEED_H_
