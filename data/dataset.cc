#include "data/dataset.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "comm/nearest_name.h"
#include "comm/status_macros.h"
#include "data/chat_template.h"
#include "data/dataset_info.h"
#include "data/formats/alpaca.h"
#include "data/json_source.h"
#include "data/truncation.h"

namespace moonring::data {
namespace {

absl::Status CheckOptions(const DatasetOptions& options) {
  if (options.names.empty()) return absl::InvalidArgumentError("dataset: names no data set");
  for (size_t i = 0; i < options.names.size(); ++i) {
    if (std::find(options.names.begin(), options.names.begin() + i, options.names[i]) != options.names.begin() + i) {
      return absl::InvalidArgumentError(absl::StrCat("dataset: names '", options.names[i], "' twice"));
    }
  }
  if (options.cutoff_len < 1) return absl::InvalidArgumentError(absl::StrCat("cutoff_len must be at least 1, got ", options.cutoff_len));
  if (options.max_samples.has_value() && *options.max_samples < 1) {
    return absl::InvalidArgumentError(absl::StrCat("max_samples must be at least 1, got ", *options.max_samples));
  }
  if (options.train_on_prompt && options.mask_history) return absl::InvalidArgumentError("train_on_prompt and mask_history exclude one another");
  return absl::OkStatus();
}

// Turns rows into examples, and keeps the account.
class Builder {
 public:
  Builder(const DatasetOptions& options, const ChatTemplate& chat_template)
      : options_(options),
        template_(chat_template),
        learn_{.cutoff_len = options.cutoff_len, .train_on_prompt = options.train_on_prompt, .mask_history = options.mask_history} {
    if (template_.spec().efficient_eos) learn_.efficient_eos = template_.eos();
  }

  absl::Status AddDataset(const DatasetDescription& description) {
    if (description.formatting != "alpaca") return absl::UnimplementedError(absl::StrCat("not supported yet: formatting ", description.formatting));
    RETURN_IF_ERROR(CheckAlpaca(description));
    ASSIGN_OR_RETURN(const std::unique_ptr<JsonSource> source, JsonSource::Open(description.files));
    std::set<std::string> keys;
    int64_t rows = 0;
    bool ended = false;
    while (!options_.max_samples.has_value() || rows < *options_.max_samples) {
      ASSIGN_OR_RETURN(const std::optional<Row> row, source->Next());
      ended = !row.has_value();
      if (ended) break;
      ++rows;
      if (row->value.is_object()) {
        for (const auto& [key, value] : row->value.items()) keys.insert(key);
      }
      RETURN_IF_ERROR(AddRow(*row, description.columns), Where(*row));
    }
    prepared_.report.rows += rows;
    if (rows == 0) return absl::InvalidArgumentError(absl::StrCat("is empty: ", absl::StrJoin(description.files, ", "), " has no row"));
    return CheckColumns(description, keys, ended);
  }

  absl::StatusOr<PreparedDataset> Finish() && {
    DatasetReport& report = prepared_.report;
    report.examples = static_cast<int64_t>(prepared_.examples.size());
    if (prepared_.examples.empty()) {
      std::string reasons;
      for (const SkippedRows& skipped : report.skipped) absl::StrAppend(&reasons, "; ", skipped.count, " ", skipped.reason, ", first at ", skipped.first);
      return absl::InvalidArgumentError(absl::StrCat("dataset: none of ", report.rows, " rows gives an example", reasons));
    }
    if (!anything_to_predict_) {
      return absl::InvalidArgumentError(absl::StrCat("cutoff_len ", options_.cutoff_len, " is too small: it leaves no token to learn in any of ",
                                                     report.examples, " examples (the longest has ", report.longest, " tokens)"));
    }
    return std::move(prepared_);
  }

 private:
  absl::Status AddRow(const Row& row, const Columns& columns) {
    ASSIGN_OR_RETURN(const ConvertedRow converted, ConvertAlpaca(row.value, columns));
    if (!converted.skipped.empty()) {
      Skip(converted.skipped, row);
      return absl::OkStatus();
    }
    BuiltDocument built = BuildConversation(template_.EncodeTurns(converted.conversation), learn_);
    if (built.whole_tokens == 0) {
      Skip("without any token", row);
      return absl::OkStatus();
    }
    DatasetReport& report = prepared_.report;
    report.longest = std::max(report.longest, built.whole_tokens);
    ++report.lengths[absl::bit_width(static_cast<uint64_t>(built.whole_tokens)) - 1];
    if (built.truncated() && options_.overlong == Overlong::kError) {
      return absl::InvalidArgumentError(absl::StrCat("has ", built.whole_tokens, " tokens, cutoff_len is ", options_.cutoff_len, ", and overlong is error"));
    }
    if (built.truncated() && options_.overlong == Overlong::kDrop) {
      Skip(absl::StrCat("longer than cutoff_len ", options_.cutoff_len), row);
      return absl::OkStatus();
    }
    Count(built);
    prepared_.examples.push_back({.documents = {std::move(built.document)}});
    return absl::OkStatus();
  }

  void Count(const BuiltDocument& built) {
    DatasetReport& report = prepared_.report;
    const std::vector<int32_t>& labels = built.document.labels;
    const int64_t learnt = absl::c_count_if(labels, [](int32_t label) { return label != kNotLearnt; });
    report.tokens += built.document.size();
    report.learnt += learnt;
    report.truncated += built.truncated();
    const bool predicts = learnt > (labels[0] != kNotLearnt ? 1 : 0);  // nothing comes before the first token to predict it from
    report.nothing_learnt += !predicts;
    anything_to_predict_ = anything_to_predict_ || predicts;
  }

  void Skip(const std::string& reason, const Row& row) {
    std::vector<SkippedRows>& skipped = prepared_.report.skipped;
    auto found = absl::c_find_if(skipped, [&](const SkippedRows& rows) { return rows.reason == reason; });
    if (found == skipped.end()) found = skipped.insert(skipped.end(), {.reason = reason, .first = Where(row)});
    ++found->count;
  }

  // A column that no row has is a slip in the description. Where reading stopped early, the rows not read may have it.
  static absl::Status CheckColumns(const DatasetDescription& description, const std::set<std::string>& keys, bool read_all) {
    const Columns& columns = description.columns;
    const std::pair<const char*, const Column*> used[] = {
        {"prompt", &columns.prompt}, {"query", &columns.query}, {"response", &columns.response}, {"system", &columns.system}, {"history", &columns.history}};
    const bool has_text = (columns.prompt.has_value() && keys.contains(*columns.prompt)) || (columns.query.has_value() && keys.contains(*columns.query));
    for (const auto& [key, column] : used) {
      if (!column->has_value() || keys.contains(**column)) continue;
      const bool text = key == used[0].first || key == used[1].first;
      if (!(text && !has_text) && !(read_all && (columns.named || key == used[0].first))) continue;
      const std::vector<std::string> known(keys.begin(), keys.end());
      return absl::InvalidArgumentError(absl::StrCat("no row has the key '", **column, "', which is to be its ", key, comm::DidYouMean(**column, known),
                                                     "; rows have ", absl::StrJoin(known, ", "), "; 'columns' in the description says which key is which"));
    }
    return absl::OkStatus();
  }

  const DatasetOptions& options_;
  const ChatTemplate& template_;
  LearnOptions learn_;
  PreparedDataset prepared_;
  bool anything_to_predict_ = false;
};

}  // namespace

absl::StatusOr<Overlong> ParseOverlong(absl::string_view name) {
  if (name == "truncate") return Overlong::kTruncate;
  if (name == "drop") return Overlong::kDrop;
  if (name == "error") return Overlong::kError;
  return absl::InvalidArgumentError(absl::StrCat("overlong must be truncate, drop or error, got '", name, "'"));
}

std::string DatasetReport::Text() const {
  std::string text = absl::StrCat("examples: ", examples, " of ", rows, " rows, ", tokens, " tokens, ", learnt, " learnt\n");
  for (const SkippedRows& kind : skipped) absl::StrAppend(&text, "rows left out, ", kind.reason, ": ", kind.count, "; the first is ", kind.first, "\n");
  if (truncated > 0) absl::StrAppend(&text, "examples cut to cutoff_len: ", truncated, "; the longest row has ", longest, " tokens\n");
  if (nothing_learnt > 0) absl::StrAppend(&text, "examples with nothing left to learn: ", nothing_learnt, "\n");
  const int64_t highest = *absl::c_max_element(lengths);
  if (highest == 0) return text;
  size_t first = 0, last = lengths.size() - 1;
  while (lengths[first] == 0) ++first;
  while (lengths[last] == 0) --last;
  absl::StrAppend(&text, "tokens a row, uncut:\n");
  for (size_t b = first; b <= last; ++b) {
    constexpr int64_t kWidth = 40;
    const std::string bar((lengths[b] * kWidth + highest - 1) / highest, '#');
    absl::StrAppendFormat(&text, "%9d to %-9d %8d%s%s\n", int64_t{1} << b, (int64_t{2} << b) - 1, lengths[b], bar.empty() ? "" : " ", bar);
  }
  return text;
}

absl::StatusOr<PreparedDataset> PrepareDataset(const DatasetOptions& options, std::shared_ptr<const Tokenizer> tokenizer) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(TemplateSpec spec, FindTemplate(options.template_name));
  ASSIGN_OR_RETURN(const ChatTemplate chat_template, ChatTemplate::Create(std::move(spec), std::move(tokenizer), options.default_system));
  ASSIGN_OR_RETURN(const std::vector<DatasetDescription> descriptions, ReadDatasetInfo(options.dataset_dir, options.names));
  Builder builder(options, chat_template);
  for (const DatasetDescription& description : descriptions) RETURN_IF_ERROR(builder.AddDataset(description), "data set '", description.name, "'");
  return std::move(builder).Finish();
}

}  // namespace moonring::data
