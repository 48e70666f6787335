#include "data/stream/example_feed.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <c10/util/hash.h>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/example_digest.h"
#include "data/example_table.h"

namespace moonring::data {
namespace {

std::string TextOf(const OrderedJson& row) {
  return row.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace

ExampleFeed::ExampleFeed(FeedOptions options, ChatTemplate chat_template, GivenRows given)
    : options_(std::move(options)),
      template_(std::move(chat_template)),
      given_(std::move(given)),
      encoder_(options_.dataset, template_),
      builder_(options_.dataset, template_),
      encoding_(options_.dataset.threads, [this](Given row) { return Encode(row); }) {}

absl::StatusOr<std::unique_ptr<ExampleFeed>> ExampleFeed::Create(
    FeedOptions options, std::shared_ptr<const Tokenizer> tokenizer) {
  RETURN_IF_ERROR(CheckOptions(options.dataset));
  ASSIGN_OR_RETURN(ChatTemplate chat_template,
                   ChatTemplate::Create(options.dataset.chat_template, std::move(tokenizer),
                                        options.dataset.default_system));
  ASSIGN_OR_RETURN(GivenRows given, GivenRows::Create(options.description, options.dataset.stage));
  return std::unique_ptr<ExampleFeed>(
      new ExampleFeed(std::move(options), std::move(chat_template), std::move(given)));
}

bool ExampleFeed::joins_rows() const {
  if (options_.prepared) return false;
  return options_.dataset.joins_texts() || options_.dataset.packs_rows() ||
         options_.dataset.stage == Stage::kFeedback;
}

void ExampleFeed::Begin(int64_t rows, std::string digest) {
  rows_ = rows;
  digest_ = std::move(digest);
  row_digests_.clear();
}

void ExampleFeed::Count(const OrderedJson& row) {
  ++rows_;
  const std::string text = TextOf(row);
  row_digests_.push_back(c10::sha1(text).str().substr(0, 8));
  digest_ = c10::sha1(absl::StrCat(digest_, text)).str();
}

absl::StatusOr<EncodedRow> ExampleFeed::Encode(const Given& given) const {
  if (given.description != nullptr) return encoder_.EncodeNamed(given.row, *given.description);
  ASSIGN_OR_RETURN(EncodedRow encoded, encoder_.EncodeIds(given.row, vocabulary_),
                   Where(given.row));
  return encoded;
}

absl::Status ExampleFeed::TakeEncoded() {
  ASSIGN_OR_RETURN(EncodedRow encoded, encoding_.Take());
  builder_.Add(std::move(encoded));
  return absl::OkStatus();
}

absl::Status ExampleFeed::AddPrepared(const OrderedJson& row, const std::string& where) {
  ASSIGN_OR_RETURN(Example example, ReadExample(row, options_.dataset.stage, template_.pad()),
                   where);
  for (const Document& document : example.documents) {
    const int32_t highest = *absl::c_max_element(document.ids);
    if (vocabulary_.has_value() && highest >= *vocabulary_)
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": holds the token ", highest, ", and the model has ", *vocabulary_));
  }
  builder_.AddPrepared(std::move(example), where);
  return absl::OkStatus();
}

absl::Status ExampleFeed::Add(OrderedJson row) {
  Count(row);
  Given given{.row = {.file = options_.dataset.names[0], .number = rows_}};
  const std::string where = Where(given.row);
  if (options_.prepared) return AddPrepared(row, where);
  ASSIGN_OR_RETURN(given.row.value, given_.Normalize(std::move(row)), where);
  ASSIGN_OR_RETURN(given.description, given_.DescriptionOf(given.row.value), where);
  while (encoding_.Full()) RETURN_IF_ERROR(TakeEncoded());
  encoding_.Add(std::move(given));
  return absl::OkStatus();
}

absl::Status ExampleFeed::PassOver(const OrderedJson& row) {
  Count(row);
  row_digests_.clear();
  return absl::OkStatus();
}

absl::Status ExampleFeed::EndBatch() {
  while (!encoding_.Empty()) RETURN_IF_ERROR(TakeEncoded());
  std::vector<Example> examples = builder_.EndBatch();
  batch_digest_ = DigestOf(examples);
  std::move(examples.begin(), examples.end(), std::back_inserter(ready_));
  return absl::OkStatus();
}

std::vector<Example> ExampleFeed::Take(int64_t most) {
  const auto end = ready_.begin() + std::clamp<int64_t>(most, 0, ready());
  std::vector<Example> taken(std::make_move_iterator(ready_.begin()), std::make_move_iterator(end));
  ready_.erase(ready_.begin(), end);
  return taken;
}

absl::StatusOr<PreparedDataset> ExampleFeed::Finish() && {
  while (!encoding_.Empty()) RETURN_IF_ERROR(TakeEncoded());
  return std::move(builder_).Finish();
}

std::vector<std::string> ExampleFeed::TakeRowDigests() { return std::exchange(row_digests_, {}); }

}  // namespace moonring::data
