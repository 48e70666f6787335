#include "data/stream/example_stream.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status/status_macros.h"
#include "data/description/column_check.h"
#include "data/description/stage.h"
#include "data/example_digest.h"
#include "data/formats/format_table.h"
#include "data/mixing/numpy_random.h"

namespace moonring::data {
namespace {

NumpyRandom PassRandom(int64_t seed, int64_t pass) {
  NumpyRandom random(static_cast<uint64_t>(seed));
  if (pass == 0) return random;
  const uint64_t drawn = random.Next64() >> 1;  // integers(0, 2^63)
  return NumpyRandom((drawn - static_cast<uint64_t>(pass)) & ((uint64_t{1} << 63) - 1));
}

absl::Status CheckStream(const StreamOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options.dataset));
  if (options.dataset.max_samples.has_value())
    return absl::InvalidArgumentError("max_samples and streaming exclude one another");
  if (options.dataset.seed < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("seed must be 0 or more with streaming, got ", options.dataset.seed));
  if (options.buffer_size < 1 || options.buffer_size > int64_t{1} << 31) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer_size must be 1 to 2^31, got ", options.buffer_size));
  }
  if (options.lanes < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("a stream needs at least 1 lane, got ", options.lanes));
  return absl::OkStatus();
}

}  // namespace

ExampleStream::ExampleStream(StreamOptions options, ChatTemplate chat_template,
                             std::vector<DatasetDescription> descriptions)
    : options_(std::move(options)),
      template_(std::move(chat_template)),
      descriptions_(std::move(descriptions)),
      encoder_(options_.dataset, template_),
      builder_(options_.dataset, template_),
      encoding_(options_.dataset.threads,
                [this](StreamRow row) -> absl::StatusOr<EncodedRow> {
                  const DatasetDescription& description = descriptions_[row.dataset];
                  ASSIGN_OR_RETURN(EncodedRow encoded, encoder_.EncodeNamed(row.row, description),
                                   "data set '", description.name, "'");
                  return encoded;
                }),
      keys_(descriptions_.size()) {}

absl::StatusOr<std::unique_ptr<ExampleStream>> ExampleStream::Create(
    StreamOptions options, std::shared_ptr<const Tokenizer> tokenizer) {
  RETURN_IF_ERROR(CheckStream(options));
  ASSIGN_OR_RETURN(ChatTemplate chat_template,
                   ChatTemplate::Create(options.dataset.chat_template, std::move(tokenizer),
                                        options.dataset.default_system));
  ASSIGN_OR_RETURN(
      std::vector<DatasetDescription> descriptions,
      ReadDatasetInfo(options.dataset.dataset_dir, options.dataset.names, RowFormatNames(),
                      options.dataset.fetched, options.dataset.dir_is_checkout));
  auto stream = std::unique_ptr<ExampleStream>(
      new ExampleStream(std::move(options), std::move(chat_template), std::move(descriptions)));
  const int64_t lanes = stream->options_.lanes;
  for (const DatasetDescription& description : stream->descriptions_) {
    RETURN_IF_ERROR(CheckStage(description, stream->options_.dataset.stage), "data set '",
                    description.name, "'");
    if (!description.slices.empty()) {
      return absl::UnimplementedError(absl::StrCat(
          "data set '", description.name, "': 'split' with slices does not go with streaming"));
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<RowSource> source, RowSource::Open(description.files),
                     "data set '", description.name, "'");
    ASSIGN_OR_RETURN(const std::optional<Row> first, source->Next(), "data set '", description.name,
                     "'");
    if (!first.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("data set '", description.name,
                       "': is empty: ", absl::StrJoin(description.files, ", "), " has no row"));
    }
    if (lanes == 1) continue;
    ASSIGN_OR_RETURN(DatasetRows counted, DatasetRows::Count(description.files), "data set '",
                     description.name, "'");
    if (counted.rows() < lanes) {
      return absl::InvalidArgumentError(absl::StrCat("dataloader_num_workers: data set '",
                                                     description.name, "': its ", counted.rows(),
                                                     " rows cannot be cut in ", lanes, " parts"));
    }
    stream->counted_.push_back(std::move(counted));
  }
  return stream;
}

absl::StatusOr<PassRows> ExampleStream::MakeRows(int64_t lane, int64_t part, int64_t pass) const {
  std::vector<MixedPart> parts;
  for (size_t d = 0; d < descriptions_.size(); ++d) {
    MixedPart& of = parts.emplace_back(
        MixedPart{.name = descriptions_[d].name, .files = descriptions_[d].files});
    if (counted_.empty()) continue;
    ASSIGN_OR_RETURN(of.range, counted_[d].Part(part, options_.lanes), "data set '", of.name, "'");
  }
  PassOptions options{.mix = options_.dataset.mix,
                      .buffer_size = options_.shuffle ? options_.buffer_size : 0};
  const int64_t held_out =
      options_.held_out / options_.lanes + (lane < options_.held_out % options_.lanes);
  if (options_.only_held_out) {
    options.most = held_out;
  } else {
    options.skip = held_out;
  }
  return PassRows::Begin(parts, options, PassRandom(options_.dataset.seed, pass));
}

absl::StatusOr<std::deque<ExampleStream::Lane>> ExampleStream::MakeLanes(int64_t pass) const {
  std::vector<int64_t> parts(options_.lanes);
  std::iota(parts.begin(), parts.end(), int64_t{0});
  if (options_.shuffle) PassRandom(options_.dataset.seed, pass).Shuffle(parts);
  std::deque<Lane> lanes;
  for (int64_t lane = 0; lane < options_.lanes; ++lane) {
    ASSIGN_OR_RETURN(PassRows rows, MakeRows(lane, parts[lane], pass));
    std::string before = rows.SaveState().dump();
    lanes.push_back({.rows = std::move(rows), .before = std::move(before)});
  }
  return lanes;
}

absl::Status ExampleStream::BeginPass(int64_t pass) {
  ASSIGN_OR_RETURN(lanes_, MakeLanes(pass));
  pass_ = pass;
  turn_ = 0;
  return absl::OkStatus();
}

void ExampleStream::NoteKeys(const StreamRow& row) {
  if (checked_keys_ || !row.row.value.is_object()) return;
  for (const auto& [key, value] : row.row.value.items()) keys_[row.dataset].insert(key);
}

absl::Status ExampleStream::CheckKeys() {
  if (checked_keys_) return absl::OkStatus();
  for (size_t d = 0; d < keys_.size(); ++d) {
    if (keys_[d].empty()) continue;  // no row read yet; checked later
    RETURN_IF_ERROR(
        CheckColumns(descriptions_[d], options_.dataset.stage, keys_[d], /*read_all=*/false)
            .status(),
        "data set '", descriptions_[d].name, "'");
  }
  checked_keys_ = std::none_of(keys_.begin(), keys_.end(),
                               [](const std::set<std::string>& keys) { return keys.empty(); });
  return absl::OkStatus();
}

// After LoadState: reads the current batch of rows again and compares its examples with `digest`,
// which is empty if there was no batch.
absl::Status ExampleStream::Refill(Lane& lane, const std::string& digest) {
  if (digest.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(ReadBatch(lane));
  if (lane.digest == digest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "data sets ", Names(),
      ": their rows give other examples than they gave: a file or the template has changed"));
}

// Reads the next batch of rows and makes its examples ready.
absl::Status ExampleStream::ReadBatch(Lane& lane) {
  lane.before = lane.rows.SaveState().dump();
  lane.taken = 0;
  int64_t rows = 0;
  bool more = true;
  absl::Status broken;  // reported after errors of the rows before it
  while (true) {
    while (more && !encoding_.Full()) {
      more = rows < options_.dataset.preprocessing_batch_size;
      if (!more) break;
      absl::StatusOr<std::optional<StreamRow>> row = lane.rows.Next();
      broken = row.status();
      more = row.ok() && row->has_value();
      if (!more) break;
      ++rows;
      NoteKeys(**row);
      encoding_.Add(**std::move(row));
    }
    if (encoding_.Empty()) break;
    ASSIGN_OR_RETURN(EncodedRow encoded, encoding_.Take());
    builder_.Add(std::move(encoded));
  }
  RETURN_IF_ERROR(broken);
  RETURN_IF_ERROR(CheckKeys());
  std::vector<Example> examples = builder_.EndBatch();
  lane.digest = DigestOf(examples);
  std::move(examples.begin(), examples.end(), std::back_inserter(lane.ready));
  const std::lock_guard<std::mutex> lock(mutex_);
  report_ = builder_.report();
  lane.ended = rows < options_.dataset.preprocessing_batch_size;
  return absl::OkStatus();
}

// Reads batches until the lane has a ready example or has ended.
absl::Status ExampleStream::Fill(Lane& lane) {
  while (lane.ready.empty() && !lane.ended) RETURN_IF_ERROR(ReadBatch(lane));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Example>> ExampleStream::NextBatch(int64_t most) {
  std::vector<Example> batch;
  for (size_t tried = 0; tried < lanes_.size() && batch.empty(); ++tried) {
    Lane& lane = lanes_[turn_];
    turn_ = (turn_ + 1) % lanes_.size();
    while (static_cast<int64_t>(batch.size()) < most) {
      RETURN_IF_ERROR(Fill(lane));
      if (lane.ready.empty()) break;
      batch.push_back(std::move(lane.ready.front()));
      lane.ready.pop_front();
      ++lane.taken;
    }
  }
  return batch;
}

absl::StatusOr<bool> ExampleStream::AtEnd() {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[(turn_ + i) % lanes_.size()];
    RETURN_IF_ERROR(Fill(lane));
    if (!lane.ready.empty()) return false;
  }
  return true;
}

DatasetReport ExampleStream::report() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return report_;
}

std::string ExampleStream::Names() const { return absl::StrJoin(options_.dataset.names, ", "); }

// Everything that determines the order of examples, as text. (Names of files are included, without
// folders; their contents are checked by digests.)
std::string ExampleStream::Identity() const {
  const DatasetOptions& of = options_.dataset;
  nlohmann::json files = nlohmann::json::array();
  for (const DatasetDescription& description : descriptions_) {
    nlohmann::json& names = files.emplace_back(nlohmann::json::array());
    for (const std::string& path : description.files)
      names.push_back(path.substr(path.rfind('/') + 1));
  }
  return nlohmann::json{{"files", files},
                        {"mix_strategy", static_cast<int>(of.mix.strategy)},
                        {"interleave_probs", of.mix.probabilities},
                        {"seed", of.seed},
                        {"buffer_size", options_.buffer_size},
                        {"dataloader_num_workers", options_.lanes},
                        {"val_size", options_.held_out},
                        {"preprocessing_batch_size", of.preprocessing_batch_size},
                        {"cutoff_len", of.cutoff_len}}
      .dump();
}

std::string ExampleStream::SaveState() const {
  nlohmann::json taken = nlohmann::json::array(), digests = nlohmann::json::array();
  for (const Lane& lane : lanes_) {
    taken.push_back(lane.taken);
    digests.push_back(lane.digest);
  }
  std::string state = nlohmann::json{{"stage", "example_stream"},
                                     {"of", Identity()},
                                     {"pass", pass_},
                                     {"turn", turn_},
                                     {"taken", taken},
                                     {"digests", digests}}
                          .dump();
  for (const Lane& lane : lanes_) absl::StrAppend(&state, "\n", lane.before);
  return state;
}

absl::Status ExampleStream::LoadState(absl::string_view state) try {
  const std::vector<std::string> lines = absl::StrSplit(state, '\n');
  const nlohmann::json saved = nlohmann::json::parse(lines[0]);
  if (saved.at("stage") != "example_stream")
    return absl::InvalidArgumentError("example_stream: not a state that a stream saved");
  if (saved.at("of") != Identity()) {
    return absl::FailedPreconditionError(
        absl::StrCat("example_stream: the state was saved of another stream: ",
                     saved.at("of").get<std::string>(), ", and this one is ", Identity()));
  }
  ASSIGN_OR_RETURN(std::deque<Lane> lanes, MakeLanes(saved.at("pass")));
  const size_t turn = saved.at("turn");
  if (lines.size() != lanes.size() + 1 || turn >= lanes.size())
    return absl::InvalidArgumentError("example_stream: the saved state is broken");
  for (size_t i = 0; i < lanes.size(); ++i) {
    RETURN_IF_ERROR(lanes[i].rows.LoadState(nlohmann::json::parse(lines[i + 1])), "example_stream");
    const int64_t taken = saved.at("taken").at(i);
    const std::string digest = saved.at("digests").at(i);
    if (taken < 0) return absl::InvalidArgumentError("example_stream: the saved state is broken");
    RETURN_IF_ERROR(Refill(lanes[i], digest));
    if (taken > static_cast<int64_t>(lanes[i].ready.size()))
      return absl::InvalidArgumentError("example_stream: the saved state is broken");
    lanes[i].ready.erase(lanes[i].ready.begin(), lanes[i].ready.begin() + taken);
    lanes[i].taken = taken;
  }
  lanes_ = std::move(lanes);
  pass_ = saved.at("pass");
  turn_ = turn;
  return absl::OkStatus();
} catch (const nlohmann::json::exception&) {
  return absl::InvalidArgumentError("example_stream: not a state that a stream saved");
}

absl::StatusOr<PreparedDataset> OnePass(ExampleStream& stream, int64_t batch) {
  PreparedDataset prepared;
  RETURN_IF_ERROR(stream.BeginPass(0));
  while (true) {
    ASSIGN_OR_RETURN(std::vector<Example> examples, stream.NextBatch(batch));
    if (examples.empty()) break;
    std::move(examples.begin(), examples.end(), std::back_inserter(prepared.examples));
  }
  RETURN_IF_ERROR(stream.Check());
  prepared.report = stream.report();
  prepared.uses = stream.uses();
  return prepared;
}

}  // namespace moonring::data
