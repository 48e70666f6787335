#include "data/dataset.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <system_error>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"
#include "data/description/column_check.h"
#include "data/description/dataset_info.h"
#include "data/description/split_slices.h"
#include "data/description/stage.h"
#include "data/files/row.h"
#include "data/files/row_source.h"
#include "data/formats/format_table.h"
#include "data/mixing/dataset_split.h"
#include "data/mixing/mixer.h"
#include "data/mixing/numpy_random.h"
#include "data/mixing/row_sampler.h"
#include "data/pipeline/ordered_map.h"
#include "data/row_encoder.h"
#include "data/text/chat_template.h"

namespace moonring::data {
namespace {

using TakeRow = absl::FunctionRef<void(EncodedRow)>;
using TakeNote = absl::FunctionRef<void(CountedRows)>;

// Reports to options.work an estimate of the number of rows in a data set's files, from the bytes
// read so far. Makes no estimate for files whose readers do not know their offset (columnar and
// compressed files).
class RowEstimate {
 public:
  RowEstimate(base::WorkCount& work, const std::vector<std::string>& files)
      : work_(work), before_(work.done) {
    for (const std::string& file : files) {
      std::error_code code;
      const std::filesystem::path path(file);
      const bool is_plain = path.extension() != ".gz" && path.extension() != ".zst";
      sizes_.push_back(is_plain ? static_cast<double>(std::filesystem::file_size(path, code)) : 0);
      if (code) sizes_.back() = 0;
      total_ += sizes_.back();
    }
  }

  void Take(int64_t rows, const RowSource& source) {
    if (rows % kRows != 0) return;
    const RowPlace place = source.place();
    double read = static_cast<double>(place.at.position.offset);
    for (size_t i = 0; i < std::min(place.file, sizes_.size()); ++i) read += sizes_[i];
    if (read > 0 && read <= total_)
      work_.total = before_ + static_cast<int64_t>(static_cast<double>(rows) * total_ / read);
  }

 private:
  static constexpr int64_t kRows = 256;  // rows between two estimates

  base::WorkCount& work_;
  const int64_t before_;
  std::vector<double> sizes_;
  double total_ = 0;
};

// Encodes rows of a data set and passes them to `take` in file order: of the first `most` rows,
// those whose number (from 0) `wanted` accepts. If several rows fail, the error is that of the
// first one in file order, whichever thread finds its error first.
absl::Status ReadRows(const DatasetDescription& description, const DatasetOptions& options,
                      const RowEncoder& encoder, int64_t most,
                      absl::FunctionRef<bool(int64_t)> wanted, TakeRow take, TakeNote note) {
  ASSIGN_OR_RETURN(const std::unique_ptr<RowSource> source, RowSource::Open(description.files));
  OrderedMap<Row, absl::StatusOr<EncodedRow>> encoding(
      options.threads, [&](Row row) { return encoder.EncodeNamed(row, description); });
  std::optional<RowEstimate> estimate;
  if (options.work != nullptr) estimate.emplace(*options.work, description.files);
  std::set<std::string> keys;
  int64_t rows = 0;
  bool ended = false;
  absl::Status broken;
  while (true) {
    while (!ended && broken.ok() && rows < most && !encoding.Full()) {
      absl::StatusOr<std::optional<Row>> row = source->Next();
      broken = row.status();
      ended = row.ok() && !row->has_value();
      if (ended || !broken.ok()) break;
      if ((*row)->value.is_object()) {
        for (const auto& [key, value] : (*row)->value.items()) keys.insert(key);
      }
      if (wanted(rows++)) encoding.Add(**std::move(row));
      if (estimate.has_value()) estimate->Take(rows, *source);
    }
    if (encoding.Empty()) break;
    ASSIGN_OR_RETURN(EncodedRow encoded, encoding.Take());
    take(std::move(encoded));
    if (options.work != nullptr) ++options.work->done;
  }
  RETURN_IF_ERROR(broken);
  if (rows == 0)
    return absl::InvalidArgumentError(
        absl::StrCat("is empty: ", absl::StrJoin(description.files, ", "), " has no row"));
  ASSIGN_OR_RETURN(const std::vector<std::string> without,
                   CheckColumns(description, options.stage, keys, ended));
  for (const std::string& column : without) {
    note({.what = absl::StrCat("without '", column, "', which 'columns' names and no row has"),
          .count = rows,
          .first = description.files.front()});
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> CountRows(const DatasetDescription& description) {
  ASSIGN_OR_RETURN(const std::unique_ptr<RowSource> source, RowSource::Open(description.files));
  for (int64_t rows = 0;; ++rows) {
    ASSIGN_OR_RETURN(const std::optional<Row> row, source->Next());
    if (!row.has_value()) return rows;
  }
}

// Reads the rows selected by the description's slices or by num_samples, in the selected order.
// Reads the files twice and encodes only the selected rows.
absl::Status ReadChosen(const DatasetDescription& description, const DatasetOptions& options,
                        const RowEncoder& encoder, NumpyLegacyRandom& random, TakeRow take,
                        TakeNote note) {
  ASSIGN_OR_RETURN(const int64_t rows, CountRows(description));
  ASSIGN_OR_RETURN(
      std::vector<int64_t> drawn,
      SliceRows(description.slices.empty() ? std::vector<SplitSlice>(1) : description.slices,
                rows));
  if (rows > 0 && drawn.empty())
    return absl::InvalidArgumentError(absl::StrCat("'split' takes none of ", rows, " rows"));
  if (description.num_samples.has_value() && rows > 0) {
    std::vector<int64_t> sampled =
        SampleRows(static_cast<int64_t>(drawn.size()), *description.num_samples, random);
    for (int64_t& row : sampled) row = drawn[row];
    drawn = std::move(sampled);
  }
  if (options.max_samples.has_value())
    drawn.resize(std::min<size_t>(drawn.size(), *options.max_samples));
  const std::set<int64_t> wanted(drawn.begin(), drawn.end());
  std::map<int64_t, EncodedRow> encoded;
  auto next = wanted.begin();
  RETURN_IF_ERROR(ReadRows(
      description, options, encoder, rows, [&](int64_t row) { return wanted.contains(row); },
      [&](EncodedRow each) { encoded.emplace(*next++, std::move(each)); }, note));
  for (const int64_t row : drawn) take(encoded.at(row));
  return absl::OkStatus();
}

absl::Status ReadDataset(const DatasetDescription& description, const DatasetOptions& options,
                         const RowEncoder& encoder, NumpyLegacyRandom& random, TakeRow take,
                         TakeNote note) {
  RETURN_IF_ERROR(CheckStage(description, options.stage));
  if (description.num_samples.has_value() || !description.slices.empty())
    return ReadChosen(description, options, encoder, random, take, note);
  return ReadRows(
      description, options, encoder,
      options.max_samples.value_or(std::numeric_limits<int64_t>::max()),
      [](int64_t) { return true; }, take, note);
}

// Reads all rows of all data sets and mixes them. Rows of interleaved data sets are kept in memory
// until the last data set has been read.
absl::Status ReadAllRows(const DatasetOptions& options, const ChatTemplate& chat_template,
                         TakeRow take, TakeNote note) {
  ASSIGN_OR_RETURN(const std::vector<DatasetDescription> descriptions,
                   ReadDatasetInfo(options.dataset_dir, options.names, RowFormatNames(),
                                   options.fetched, options.dir_is_checkout));
  const bool holds = options.mix.strategy != MixStrategy::kConcat && descriptions.size() > 1;
  const RowEncoder encoder(options, chat_template);
  NumpyLegacyRandom random(static_cast<uint32_t>(options.seed));
  std::vector<std::vector<EncodedRow>> held;
  std::vector<int64_t> rows;
  for (const DatasetDescription& description : descriptions) {
    std::vector<EncodedRow>& own = held.emplace_back();
    const auto hold = [&](EncodedRow row) { own.push_back(std::move(row)); };
    RETURN_IF_ERROR(
        ReadDataset(description, options, encoder, random, holds ? TakeRow(hold) : take, note),
        "data set '", description.name, "'");
    rows.push_back(static_cast<int64_t>(own.size()));
  }
  if (!holds) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<MixedRow> order, MixRows(rows, options.mix, options.seed));
  for (const MixedRow& at : order) take(held[at.dataset][at.row]);
  return absl::OkStatus();
}

absl::StatusOr<ChatTemplate> MakeTemplate(const DatasetOptions& options,
                                          std::shared_ptr<const Tokenizer> tokenizer) {
  RETURN_IF_ERROR(CheckOptions(options));
  return ChatTemplate::Create(options.chat_template, std::move(tokenizer), options.default_system);
}

}  // namespace

absl::StatusOr<PreparedDataset> PrepareDataset(const DatasetOptions& options,
                                               std::shared_ptr<const Tokenizer> tokenizer) {
  ASSIGN_OR_RETURN(const ChatTemplate chat_template, MakeTemplate(options, std::move(tokenizer)));
  ExampleBuilder builder(options, chat_template);
  RETURN_IF_ERROR(ReadAllRows(
      options, chat_template, [&](EncodedRow row) { builder.Add(std::move(row)); },
      [&](CountedRows rows) { builder.Note(std::move(rows)); }));
  return std::move(builder).Finish();
}

absl::StatusOr<std::pair<PreparedDataset, PreparedDataset>> PrepareSplit(
    const DatasetOptions& options, std::shared_ptr<const Tokenizer> tokenizer, double val_size,
    bool held_out_one_turn) {
  ASSIGN_OR_RETURN(const ChatTemplate chat_template, MakeTemplate(options, std::move(tokenizer)));
  std::vector<EncodedRow> rows;
  std::vector<CountedRows> notes;
  const auto read = [&](const DatasetOptions& how) {
    rows.clear();
    notes.clear();
    return ReadAllRows(
        how, chat_template, [&](EncodedRow row) { rows.push_back(std::move(row)); },
        [&](CountedRows each) { notes.push_back(std::move(each)); });
  };
  const auto prepare = [&](const std::vector<int64_t>& part, const DatasetOptions& how) {
    ExampleBuilder builder(how, chat_template);
    for (const int64_t row : part) builder.Add(std::move(rows[row]));
    for (const CountedRows& each : notes) builder.Note(each);
    return std::move(builder).Finish();
  };
  RETURN_IF_ERROR(read(options));
  ASSIGN_OR_RETURN(const DatasetSplit split,
                   SplitRows(static_cast<int64_t>(rows.size()), val_size, options.seed));
  ASSIGN_OR_RETURN(PreparedDataset train, prepare(split.train, options),
                   "the training set that val_size leaves");
  DatasetOptions of_held_out = options;
  if (held_out_one_turn) {
    of_held_out.one_turn = true;
    RETURN_IF_ERROR(read(of_held_out));
  }
  ASSIGN_OR_RETURN(PreparedDataset held_out, prepare(split.held_out, of_held_out),
                   "what val_size holds out");
  return std::pair(std::move(train), std::move(held_out));
}

}  // namespace moonring::data
