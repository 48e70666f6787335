#include "data/dataset_report.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text/ordered_json.h"

namespace moonring::data {
namespace {

void AddKinds(const std::vector<CountedRows>& more, std::vector<CountedRows>& counted) {
  for (const CountedRows& kind : more) {
    auto found =
        absl::c_find_if(counted, [&](const CountedRows& rows) { return rows.what == kind.what; });
    if (found == counted.end()) {
      counted.push_back(kind);
    } else {
      found->count += kind.count;
    }
  }
}

}  // namespace

void CountRow(absl::string_view what, absl::string_view where, std::vector<CountedRows>& counted) {
  auto found = absl::c_find_if(counted, [&](const CountedRows& rows) { return rows.what == what; });
  if (found == counted.end())
    found = counted.insert(counted.end(), {.what = std::string(what), .first = std::string(where)});
  ++found->count;
}

bool DatasetReport::CountTokens(const Example& example) {
  bool predicts = true;
  for (int64_t d = 0; d < example.trained_documents(); ++d) {
    const std::vector<int32_t>& labels = example.documents[d].labels;
    const int64_t in_loss =
        absl::c_count_if(labels, [](int32_t label) { return label != kNotLearnt; });
    tokens += static_cast<int64_t>(labels.size());
    learnt += in_loss;
    predicts =
        predicts &&
        in_loss >
            (labels[0] != kNotLearnt ? 1 : 0);  // the first token has no context to predict it from
  }
  if (!example.row.empty()) return true;  // a prompt: its completion is generated later
  nothing_learnt += !predicts;
  return predicts;
}

void DatasetReport::CountPrepared(const Example& example) {
  ++rows;
  ++examples;
  CountTokens(example);
  int64_t length = 0;
  for (int64_t d = 0; d < example.trained_documents(); ++d)
    length = std::max(length, example.documents[d].size());
  longest = std::max(longest, length);
  ++lengths[absl::bit_width(static_cast<uint64_t>(length)) - 1];
}

std::optional<std::string> DatasetReport::CutWarning() const {
  int64_t kept = rows;  // not `examples`: packing makes fewer of them
  for (const CountedRows& kind : skipped) kept -= kind.count;
  if (2 * starved <= kept) return std::nullopt;
  return absl::StrCat("cutoff_len leaves almost nothing to train on: ", starved, " of ", kept,
                      " rows keep less than a tenth of their trained tokens, or fewer than four");
}

void DatasetReport::Add(const DatasetReport& other) {
  rows += other.rows;
  examples += other.examples;
  tokens += other.tokens;
  learnt += other.learnt;
  truncated += other.truncated;
  starved += other.starved;
  nothing_learnt += other.nothing_learnt;
  longest = std::max(longest, other.longest);
  left_over += other.left_over;
  AddKinds(other.skipped, skipped);
  AddKinds(other.noted, noted);
  for (size_t b = 0; b < lengths.size(); ++b) lengths[b] += other.lengths[b];
}

std::string DatasetReport::Text(bool evaluated) const {
  int64_t used = rows;
  for (const CountedRows& kind : skipped) used -= kind.count;
  const std::string of_rows =
      used == rows ? absl::StrCat(rows, " rows") : absl::StrCat(used, " of ", rows, " rows");
  std::string text = packs ? absl::StrCat("examples: ", examples, ", packed from ", of_rows)
                           : absl::StrCat("examples: ", examples, " of ", rows, " rows");
  absl::StrAppend(&text, ", ", tokens, " tokens");
  if (!prompts) absl::StrAppend(&text, ", ", learnt, evaluated ? " evaluated" : " trained");
  absl::StrAppend(&text, "\n");
  for (const CountedRows& kind : skipped)
    absl::StrAppend(&text, "skipped rows, ", kind.what, ": ", kind.count, "; the first is ",
                    kind.first, "\n");
  for (const CountedRows& kind : noted)
    absl::StrAppend(&text, "rows ", kind.what, ": ", kind.count, "; the first is ", kind.first,
                    "\n");
  if (truncated > 0)
    absl::StrAppend(&text, "examples cut to cutoff_len: ", truncated, "; the longest row has ",
                    longest, " tokens\n");
  if (const auto warning = CutWarning()) absl::StrAppend(&text, *warning, "\n");
  if (left_over > 0)
    absl::StrAppend(&text, "tokens dropped because they fill no block of cutoff_len: ", left_over,
                    "\n");
  if (nothing_learnt > 0)
    absl::StrAppend(&text, "examples without a token to predict: ", nothing_learnt, "\n");
  const int64_t highest = *absl::c_max_element(lengths);
  if (highest == 0 || evaluated) return text;
  size_t first = 0, last = lengths.size() - 1;
  while (lengths[first] == 0) ++first;
  while (lengths[last] == 0) --last;
  absl::StrAppend(&text, "tokens a row, uncut:\n");
  for (size_t b = first; b <= last; ++b) {
    constexpr int64_t kWidth = 40;
    const std::string bar((lengths[b] * kWidth + highest - 1) / highest, '#');
    absl::StrAppendFormat(&text, "%9d to %-9d %8d%s%s\n", int64_t{1} << b, (int64_t{2} << b) - 1,
                          lengths[b], bar.empty() ? "" : " ", bar);
  }
  return text;
}

std::string DatasetReport::Json() const {
  const auto kinds = [](const std::vector<CountedRows>& counted) {
    base::OrderedJson list = base::OrderedJson::array();
    for (const CountedRows& kind : counted)
      list.push_back({{"what", kind.what}, {"count", kind.count}, {"first", kind.first}});
    return list;
  };
  base::OrderedJson report = {{"rows", rows},
                              {"examples", examples},
                              {"tokens", tokens},
                              {"learnt", learnt},
                              {"truncated", truncated},
                              {"starved", starved},
                              {"nothing_learnt", nothing_learnt},
                              {"longest", longest},
                              {"left_over", left_over},
                              {"skipped", kinds(skipped)},
                              {"noted", kinds(noted)},
                              {"lengths", base::OrderedJson::array()}};
  for (size_t b = 0; b < lengths.size(); ++b) {
    if (lengths[b] > 0)
      report["lengths"].push_back(
          {{"from", int64_t{1} << b}, {"to", (int64_t{2} << b) - 1}, {"rows", lengths[b]}});
  }
  return report.dump();
}

}  // namespace moonring::data
