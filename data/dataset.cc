#include "data/dataset.h"

#include <set>

#include <c10/util/hash.h>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/nearest_name.h"
#include "comm/status_macros.h"
#include "data/chat_template.h"
#include "data/dataset_info.h"
#include "data/dataset_split.h"
#include "data/json_source.h"
#include "data/row_encoder.h"
#include "data/stage.h"

namespace moonring::data {
namespace {

using TakeRow = absl::FunctionRef<void(EncodedRow)>;

// A column that no row has is a slip in the description. Where reading stopped early, the rows not read may have it.
absl::Status CheckColumns(const DatasetDescription& description, Stage stage, const std::set<std::string>& keys, bool read_all) {
  const auto has = [&](const Column& column) { return column.has_value() && keys.contains(*column); };
  const bool alpaca = description.formatting == "alpaca";
  const bool has_text = has(description.columns.prompt) || has(description.columns.query);
  for (const UsedColumn& used : UsedColumns(description, stage)) {
    if (!used.column.has_value() || has(used.column)) continue;
    const absl::string_view key = used.key;
    const bool missing_text = alpaca && !has_text && (key == "prompt" || key == "query");
    const bool missing = missing_text || (used.needed && key != "response");  // rows whose response is null are skipped, which says enough
    if (!missing && !(read_all && (description.columns.named || key == "prompt"))) continue;
    const std::vector<std::string> known(keys.begin(), keys.end());
    return absl::InvalidArgumentError(absl::StrCat("no row has the key '", *used.column, "', which is to be its ", key, comm::DidYouMean(*used.column, known),
                                                   "; rows have ", absl::StrJoin(known, ", "), "; 'columns' in the description says which key is which"));
  }
  return absl::OkStatus();
}

absl::Status ReadRows(const DatasetDescription& description, const DatasetOptions& options, const RowEncoder& encoder, TakeRow take) {
  RETURN_IF_ERROR(CheckStage(description, options.stage));
  ASSIGN_OR_RETURN(const std::unique_ptr<JsonSource> source, JsonSource::Open(description.files));
  std::set<std::string> keys;
  int64_t rows = 0;
  bool ended = false;
  while (!options.max_samples.has_value() || rows < *options.max_samples) {
    ASSIGN_OR_RETURN(const std::optional<Row> row, source->Next());
    ended = !row.has_value();
    if (ended) break;
    ++rows;
    if (row->value.is_object()) {
      for (const auto& [key, value] : row->value.items()) keys.insert(key);
    }
    ASSIGN_OR_RETURN(EncodedRow encoded, encoder.Encode(*row, description), Where(*row));
    take(std::move(encoded));
  }
  if (rows == 0) return absl::InvalidArgumentError(absl::StrCat("is empty: ", absl::StrJoin(description.files, ", "), " has no row"));
  return CheckColumns(description, options.stage, keys, ended);
}

absl::Status ReadAllRows(const DatasetOptions& options, const ChatTemplate& chat_template, TakeRow take) {
  ASSIGN_OR_RETURN(const std::vector<DatasetDescription> descriptions, ReadDatasetInfo(options.dataset_dir, options.names));
  const RowEncoder encoder(options, chat_template);
  for (const DatasetDescription& description : descriptions) {
    RETURN_IF_ERROR(ReadRows(description, options, encoder, take), "data set '", description.name, "'");
  }
  return absl::OkStatus();
}

absl::StatusOr<ChatTemplate> MakeTemplate(const DatasetOptions& options, std::shared_ptr<const Tokenizer> tokenizer) {
  RETURN_IF_ERROR(CheckOptions(options));
  return ChatTemplate::Create(options.chat_template, std::move(tokenizer), options.default_system);
}

}  // namespace

absl::StatusOr<PreparedDataset> PrepareDataset(const DatasetOptions& options, std::shared_ptr<const Tokenizer> tokenizer) {
  ASSIGN_OR_RETURN(const ChatTemplate chat_template, MakeTemplate(options, std::move(tokenizer)));
  ExampleBuilder builder(options, chat_template);
  RETURN_IF_ERROR(ReadAllRows(options, chat_template, [&](EncodedRow row) { builder.Add(std::move(row)); }));
  return std::move(builder).Finish();
}

absl::StatusOr<std::pair<PreparedDataset, PreparedDataset>> PrepareSplit(const DatasetOptions& options, std::shared_ptr<const Tokenizer> tokenizer,
                                                                         double val_size, int64_t seed) {
  ASSIGN_OR_RETURN(const ChatTemplate chat_template, MakeTemplate(options, std::move(tokenizer)));
  std::vector<EncodedRow> rows;
  RETURN_IF_ERROR(ReadAllRows(options, chat_template, [&](EncodedRow row) { rows.push_back(std::move(row)); }));
  ASSIGN_OR_RETURN(const DatasetSplit split, SplitRows(static_cast<int64_t>(rows.size()), val_size, seed));
  const auto prepare = [&](const std::vector<int64_t>& part) {
    ExampleBuilder builder(options, chat_template);
    for (const int64_t row : part) builder.Add(std::move(rows[row]));
    return std::move(builder).Finish();
  };
  ASSIGN_OR_RETURN(PreparedDataset train, prepare(split.train), "what val_size leaves to learn");
  ASSIGN_OR_RETURN(PreparedDataset held_out, prepare(split.held_out), "what val_size holds out");
  return std::pair(std::move(train), std::move(held_out));
}

std::string DigestOf(const std::vector<Example>& examples) {
  std::string digest;
  for (const Example& example : examples) {
    std::string bytes = absl::StrCat(digest, ";", example.desirable.has_value() ? (*example.desirable ? "1" : "0") : "");
    for (const Document& document : example.documents) {
      absl::StrAppend(&bytes, ";", document.ids.size(), ":");
      for (const std::vector<int32_t>* list : {&document.ids, &document.labels}) {
        bytes.append(reinterpret_cast<const char*>(list->data()), list->size() * sizeof(int32_t));
      }
    }
    digest = c10::sha1(bytes).str();
  }
  return digest;
}

}  // namespace moonring::data
