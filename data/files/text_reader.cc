#include "data/files/text_reader.h"

#include "base/status/status_macros.h"
#include "data/text/json/python_json.h"

namespace moonring::data {

absl::StatusOr<std::unique_ptr<RowReader>> TextReader::Open(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<TextFile> file, TextFile::Open(path));
  return std::unique_ptr<RowReader>(new TextReader(std::move(file)));
}

absl::StatusOr<std::optional<Row>> TextReader::Next() {
  const int64_t number = rows_ + 1;
  file_->BeginRow();
  if (file_->Peek() == TextFile::kEnd) {
    RETURN_IF_ERROR(file_->status(number));
    ended_ = true;
    return std::nullopt;
  }
  std::string text;
  for (int c = file_->Peek(); c != TextFile::kEnd && c != '\n' && c != '\r'; c = file_->Peek()) {
    text.push_back(static_cast<char>(c));
    file_->Take();
  }
  file_->TakeLineEnd();
  RETURN_IF_ERROR(file_->status(number));
  RETURN_IF_ERROR(file_->CheckUtf8(text, number, number));
  ++rows_;
  return Row{.value = OrderedJson::object({{"text", std::move(text)}}),
             .file = file_->path(),
             .number = number,
             .line = number};
}

}  // namespace moonring::data
