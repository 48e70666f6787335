#include "tests/attention/result_table.h"

#include <cstdio>
#include <utility>

#include <c10/util/Exception.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace moonring::testing {

Cell Text(const std::string& text) { return {text, text}; }
Cell Whole(int64_t value) { return {value, absl::StrCat(value)}; }
Cell Real(double value, int decimals) { return {value, absl::StrFormat("%.*f", decimals, value)}; }
Cell Scientific(double value) { return {value, absl::StrFormat("%.1e", value)}; }
Cell Megabytes(int64_t bytes) {
  return {bytes, absl::StrFormat("%.3f", static_cast<double>(bytes) / 1e6)};
}

ResultTable::ResultTable(std::string name, std::string filter, std::string title,
                         std::vector<Column> columns)
    : name_(std::move(name)),
      filter_(std::move(filter)),
      title_(std::move(title)),
      columns_(std::move(columns)) {}

bool ResultTable::Wants(const std::vector<std::string>& line) const {
  return absl::StrContains(absl::StrCat(name_, "/", absl::StrJoin(line, "/")), filter_);
}

void ResultTable::Add(const std::vector<Cell>& cells) {
  TORCH_CHECK(cells.size() == columns_.size(), "table ", name_, ": ", columns_.size(),
              " columns, got ", cells.size(), " cells");
  std::vector<std::string> texts;
  nlohmann::ordered_json line;
  for (size_t c = 0; c < cells.size(); ++c) {
    texts.push_back(cells[c].text);
    line[columns_[c].key] = cells[c].value;
  }
  lines_.push_back(std::move(line));
  if (lines_.size() == 1) {
    std::vector<std::string> headers;
    for (const Column& column : columns_) headers.push_back(column.header);
    absl::PrintF("\n%s\n", title_);
    Print(headers);
  }
  Print(texts);
}

void ResultTable::Print(const std::vector<std::string>& texts) const {
  std::string line;
  for (size_t c = 0; c < texts.size(); ++c)
    absl::StrAppendFormat(&line, "%*s%s", columns_[c].width, texts[c],
                          c + 1 < texts.size() ? " " : "");
  absl::PrintF("%s\n", line);
  std::fflush(stdout);
}

}  // namespace moonring::testing
