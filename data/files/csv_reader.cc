#include "data/files/csv_reader.h"

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status/status_macros.h"
#include "data/files/row_limits.h"
#include "data/text/json/python_json.h"

namespace moonring::data {
namespace {

// The cell texts that pandas 2 reads as missing values.
constexpr absl::string_view kNull[] = {
    "",     "#N/A", "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A",  "NA",       "NULL", "NaN",     "None",     "n/a",  "nan",  "null"};

bool EndsLine(int c) { return c == TextFile::kEnd || c == '\n' || c == '\r'; }

}  // namespace

absl::StatusOr<std::unique_ptr<RowReader>> CsvReader::Open(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<TextFile> file, TextFile::Open(path));
  auto reader = std::unique_ptr<CsvReader>(new CsvReader(std::move(file)));
  RETURN_IF_ERROR(reader->ReadHeader());
  return reader;
}

absl::Status CsvReader::ReadHeader() {
  RETURN_IF_ERROR(TakeRecord(0).status());
  const absl::flat_hash_set<absl::string_view> given(cells_.begin(), cells_.end());
  absl::flat_hash_set<std::string> taken;
  absl::flat_hash_map<std::string, int> last;  // last suffix number used for a repeated column name
  for (size_t i = 0; i < cells_.size(); ++i) {
    const std::string name = cells_[i].empty() ? absl::StrCat("Unnamed: ", i) : cells_[i];
    std::string unique = name;
    while (taken.contains(unique) || (unique != name && given.contains(unique)))
      unique = absl::StrCat(name, ".", ++last[name]);
    taken.insert(unique);
    columns_.push_back(std::move(unique));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Row>> CsvReader::Next() {
  if (ended_) return std::nullopt;
  const int64_t number = rows_ + 1;
  ASSIGN_OR_RETURN(const bool more, TakeRecord(number));
  ended_ = !more;
  if (ended_) return std::nullopt;
  if (cells_.size() > columns_.size()) {
    return file_->Error(
        line_, number,
        absl::StrCat("has ", cells_.size(), " cells, and the header names ", columns_.size()));
  }
  cells_.resize(columns_.size());
  Row row{.value = OrderedJson::object(), .file = file_->path(), .number = number, .line = line_};
  for (size_t i = 0; i < cells_.size(); ++i) {
    OrderedJson& value = row.value[columns_[i]];  // null
    if (!absl::c_linear_search(kNull, cells_[i])) value = std::move(cells_[i]);
  }
  ++rows_;
  return row;
}

// Reads the next non-blank record into cells_; returns false at the end of the file.
absl::StatusOr<bool> CsvReader::TakeRecord(int64_t row) {
  file_->BeginRow();
  do {
    cells_.clear();
    quoted_ = false;
    line_ = file_->position().line;
    if (file_->Peek() == TextFile::kEnd) {
      RETURN_IF_ERROR(file_->status(row));
      return false;
    }
    RETURN_IF_ERROR(TakeCell(row));
    while (file_->Peek() == ',') {
      file_->Take();
      RETURN_IF_ERROR(TakeCell(row));
      if (static_cast<int64_t>(cells_.size()) > kMostRowValues / kValuesOfMember)
        return file_->Error(
            line_, row, absl::StrCat("has more than ", kMostRowValues / kValuesOfMember, " cells"));
    }
    file_->TakeLineEnd();
  } while (cells_.size() == 1 && !quoted_ && absl::StripAsciiWhitespace(cells_[0]).empty());
  for (const std::string& cell : cells_) RETURN_IF_ERROR(file_->CheckUtf8(cell, line_, row));
  return true;
}

absl::Status CsvReader::TakeCell(int64_t row) {
  std::string& cell = cells_.emplace_back();
  const auto take = [&](int c) {
    cell.push_back(static_cast<char>(c));
    file_->Take();
  };
  if (file_->Peek() == '"') {
    quoted_ = true;
    file_->Take();
    while (true) {
      const int c = file_->Peek();
      RETURN_IF_ERROR(file_->status(row));
      if (c == TextFile::kEnd)
        return file_->Error(line_, row, "a quoted cell never ends: its closing quote is missing");
      if (c == '"') {
        file_->Take();
        if (file_->Peek() != '"') break;
      }
      take(c);
    }
  }
  for (int c = file_->Peek(); c != ',' && !EndsLine(c); c = file_->Peek()) take(c);
  return file_->status(row);
}

}  // namespace moonring::data
