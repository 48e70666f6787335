#include "data/files/json_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/status/status_macros.h"
#include "comm/text/json_nesting.h"
#include "data/text/json/python_json.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data {
namespace {

constexpr int kEnd = TextFile::kEnd;

bool IsBlank(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// The parser's own words without its place, which is one inside the row.
std::string Complaint(const nlohmann::json::exception& error) {
  std::string text = error.what();
  const size_t column = text.find(", column ");
  const size_t colon = column == std::string::npos ? column : text.find(": ", column);
  if (colon != std::string::npos) {
    text = text.substr(colon + 2);
  } else if (const size_t end = text.find("] "); end != std::string::npos) {
    text = text.substr(end + 2);
  }
  constexpr size_t kLongest = 300;  // it quotes what it read last, which may be a whole book
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

absl::StatusOr<std::optional<Row>> JsonReader::Next() {
  if (ended_) return std::nullopt;
  PassBlanks();
  RETURN_IF_ERROR(status());
  if (is_array_) {
    ASSIGN_OR_RETURN(const bool more, BeforeElement());
    if (!more) return std::nullopt;
  } else if (file_->Peek() == kEnd) {
    RETURN_IF_ERROR(status());
    ended_ = true;
    return std::nullopt;
  }
  const TextPosition begin = file_->position();
  is_array_ ? TakeElement() : TakeLine();
  RETURN_IF_ERROR(status());
  if (const absl::Status nesting = comm::CheckJsonNesting(text_); !nesting.ok())
    return Error(begin, nesting.message());
  Row row{.file = file_->path(), .number = rows_ + 1, .line = begin.line};
  try {
    row.value = OrderedJson::parse(text_);
  } catch (const nlohmann::json::parse_error& error) {
    return ParseError(begin, error);
  } catch (const nlohmann::json::out_of_range& error) {
    return Error(begin, Complaint(error));
  }
  ++rows_;
  return row;
}

// Reads the separator before an element; false at the array's end. Only blanks may follow it.
absl::StatusOr<bool> JsonReader::BeforeElement() {
  if (file_->Peek() == ']') {
    file_->Take();
    PassBlanks();
    if (file_->Peek() != kEnd)
      return Error(file_->position(), "more text after the end of the array");
    RETURN_IF_ERROR(status());
    ended_ = true;
    return false;
  }
  if (rows_ > 0) {
    if (file_->Peek() != kEnd && file_->Peek() != ',')
      return Error(file_->position(), "expected ',' or ']' after an element of the array");
    if (file_->Peek() == ',') file_->Take();
    PassBlanks();
    if (file_->Peek() == ']') return Error(file_->position(), "expected another element after ','");
  }
  if (file_->Peek() != kEnd) return true;
  RETURN_IF_ERROR(status());
  return Error(file_->position(), "the file ends inside the array: it is cut off, or lacks a ']'");
}

// Takes the text of one element: up to the bracket that closes it, or to the separator where it is
// a bare value. Where the text is broken this stops early or late, but at or after the fault, which
// the parser then finds.
void JsonReader::TakeElement() {
  text_.clear();
  int depth = 0;
  bool in_string = false;
  for (int c = file_->Peek(); c != kEnd; c = file_->Peek()) {
    if (!in_string && depth == 0 && (c == ',' || c == ']' || c == '}' || IsBlank(c)) &&
        !text_.empty())
      return;
    text_.push_back(static_cast<char>(c));
    file_->Take();
    if (in_string) {
      if (c == '\n') return;  // no string holds a bare line feed: its closing quote is missing
      if (c == '\\' && file_->Peek() != kEnd) {
        text_.push_back(static_cast<char>(file_->Peek()));
        file_->Take();
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    }
    if (depth <= 0 && !in_string && (c == '}' || c == ']' || c == '"')) return;
  }
}

void JsonReader::TakeLine() {
  text_.clear();
  for (int c = file_->Peek(); c != kEnd && c != '\n'; c = file_->Peek()) {
    text_.push_back(static_cast<char>(c));
    file_->Take();
  }
}

void JsonReader::PassBlanks() {
  while (IsBlank(file_->Peek())) file_->Take();
}

absl::Status JsonReader::ParseError(TextPosition begin, const nlohmann::json::parse_error& error) {
  // error.byte counts the characters read, the offending one included.
  const size_t good = error.byte > 0 ? error.byte - 1 : 0;
  for (size_t i = 0; i < good && i < text_.size(); ++i)
    begin.Advance(static_cast<unsigned char>(text_[i]));
  const bool at_end = good >= text_.size();
  absl::string_view hint;
  if (at_end && !is_array_)
    hint =
        " (the line ends here: without '[' at its beginning, a file holds one whole JSON value a "
        "line)";
  if (at_end && is_array_ && file_->Peek() == kEnd) hint = " (the file ends here)";
  return Error(begin, absl::StrCat(Complaint(error), hint));
}

absl::Status JsonReader::Error(const TextPosition& at, absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat(file_->path(), ":", at.line, ":", at.column, " (row ", rows_ + 1, "): ", what));
}

}  // namespace moonring::data
