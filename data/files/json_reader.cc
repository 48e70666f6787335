#include "data/files/json_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "base/text/json_nesting.h"
#include "data/files/json_value_scanner.h"
#include "data/files/row_limits.h"
#include "data/text/json/special_numbers.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data {
namespace {

constexpr int kEnd = TextFile::kEnd;

bool IsBlank(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Whether `c` is one of the three bytes of a UTF-8 byte order mark. None of them can begin a JSON
// value.
bool IsOfByteOrderMark(int c) { return c == 0xEF || c == 0xBB || c == 0xBF; }

// Returns the JSON parser's message without the position in it, which is relative to the row.
std::string Complaint(const nlohmann::json::exception& error) {
  std::string text = error.what();
  const size_t column = text.find(", column ");
  const size_t colon = column == std::string::npos ? column : text.find(": ", column);
  if (colon != std::string::npos) {
    text = text.substr(colon + 2);
  } else if (const size_t end = text.find("] "); end != std::string::npos) {
    text = text.substr(end + 2);
  }
  constexpr size_t kLongest = 300;  // the message quotes the last token, which may be very long
  if (text.size() > kLongest) text = absl::StrCat(text.substr(0, kLongest), "...");
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return ReplaceMalformedUtf8(text);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowReader>> JsonReader::Open(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<TextFile> file, TextFile::Open(path));
  auto reader = std::unique_ptr<JsonReader>(new JsonReader(std::move(file)));
  reader->PassBlanks();
  RETURN_IF_ERROR(reader->status());
  reader->is_array_ = reader->file_->Peek() == '[';
  if (reader->is_array_) reader->file_->Take();
  return reader;
}

absl::Status JsonReader::Seek(const State& state) {
  RETURN_IF_ERROR(TextRowReader::Seek(state));
  begins_ = rows_ == 0;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Row>> JsonReader::Next() {
  if (ended_) return std::nullopt;
  file_->BeginRow();
  PassBlanks();
  RETURN_IF_ERROR(status());
  ASSIGN_OR_RETURN(const bool more, is_array_ ? BeforeElement() : BeforeValue());
  if (!more) return std::nullopt;
  const TextPosition begin = file_->position();
  RETURN_IF_ERROR(TakeValue());
  if (const absl::Status nesting = base::CheckJsonNesting(text_); !nesting.ok())
    return Error(begin, nesting.message());
  Row row{.file = file_->path(), .number = rows_ + 1, .line = begin.line};
  try {
    row.value = ParseWithSpecialNumbers(text_);
  } catch (const nlohmann::json::parse_error& error) {
    return ParseError(begin, error);
  } catch (const nlohmann::json::out_of_range& error) {
    return Error(begin, Complaint(error));
  }
  ++rows_;
  return row;
}

// Reads the separator before an element, or between two top-level arrays; returns false at the end
// of the last array.
absl::StatusOr<bool> JsonReader::BeforeElement() {
  while (file_->Peek() == ']') {
    file_->Take();
    PassBlanks();
    if (file_->Peek() == kEnd) {
      RETURN_IF_ERROR(status());
      ended_ = true;
      return false;
    }
    if (file_->Peek() != '[')
      return Error(file_->position(), "more text after the end of the array");
    file_->Take();
    PassBlanks();
    begins_ = true;
  }
  if (!begins_) {
    if (file_->Peek() != kEnd && file_->Peek() != ',')
      return Error(file_->position(), "expected ',' or ']' after an element of the array");
    if (file_->Peek() == ',') file_->Take();
    PassBlanks();
    if (file_->Peek() == ']') return Error(file_->position(), "expected another element after ','");
  }
  begins_ = false;
  if (file_->Peek() != kEnd) return true;
  RETURN_IF_ERROR(status());
  return Error(file_->position(), "the file ends inside the array: it is cut off, or lacks a ']'");
}

// Returns false at the end of a file of concatenated values. A separator between values is an
// error.
absl::StatusOr<bool> JsonReader::BeforeValue() {
  if (file_->Peek() == kEnd) {
    RETURN_IF_ERROR(status());
    ended_ = true;
    return false;
  }
  if (file_->Peek() == ',')
    return Error(file_->position(),
                 "a ',' between values: take it out, or make the file one array, with '[' at its "
                 "beginning and ']' at its end");
  return true;
}

// Reads the text of one value into text_. If the value is malformed, stops at or after the error,
// which the parser then reports.
absl::Status JsonReader::TakeValue() {
  text_.clear();
  JsonValueScanner scanner;
  for (int c = file_->Peek(); c != kEnd; c = file_->Peek()) {
    if (scanner.EndsBefore(static_cast<char>(c))) break;
    text_.push_back(static_cast<char>(c));
    file_->Take();
    if (scanner.Take(static_cast<char>(c))) break;
    if (scanner.values() > kMostRowValues)
      return Error(file_->position(), absl::StrCat("more than ", kMostRowValues,
                                                   " values in a row, each member of an object "
                                                   "counted as ",
                                                   kValuesOfMember));
  }
  return status();
}

// Skips white space, and byte order marks, which occur inside concatenated files.
void JsonReader::PassBlanks() {
  while (IsBlank(file_->Peek()) || IsOfByteOrderMark(file_->Peek())) file_->Take();
}

absl::Status JsonReader::ParseError(TextPosition begin, const nlohmann::json::parse_error& error) {
  // error.byte counts the characters read, including the offending one. If the text ends too early,
  // the error is placed after its last non-blank character.
  const size_t read = error.byte > 0 ? error.byte - 1 : 0,
               end = text_.find_last_not_of(" \t\r\n") + 1;
  const size_t good = read < text_.size() ? read : end;
  const int64_t line = begin.line;
  for (size_t i = 0; i < good; ++i) begin.Advance(static_cast<unsigned char>(text_[i]));
  std::string hint;
  if (read >= text_.size() && file_->Peek() == kEnd) {
    hint = " (the file ends here)";
  } else if (begin.line > line) {
    hint = absl::StrCat(" (the value begins in line ", line, ": is something not closed there?)");
  }
  return Error(begin, absl::StrCat(Complaint(error), hint));
}

absl::Status JsonReader::Error(const TextPosition& at, absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat(file_->path(), ":", at.line, ":", at.column, " (row ", rows_ + 1, "): ", what));
}

}  // namespace moonring::data
