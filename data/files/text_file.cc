#include "data/files/text_file.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status/status_macros.h"
#include "data/files/row_limits.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data {
namespace {

constexpr size_t kBufferBytes = 1 << 18;
constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

absl::StatusOr<std::unique_ptr<TextFile>> TextFile::Open(std::string path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> stream, ByteStream::Open(path), path);
  auto file = std::unique_ptr<TextFile>(new TextFile(std::move(path), std::move(stream)));
  file->Fill();
  RETURN_IF_ERROR(file->status_, file->path_);
  if (absl::StartsWith(file->buffer_, "\xFF\xFE") || absl::StartsWith(file->buffer_, "\xFE\xFF")) {
    return absl::InvalidArgumentError(
        absl::StrCat(file->path_, ": is UTF-16; only UTF-8 can be read"));
  }
  if (absl::StartsWith(file->buffer_, kByteOrderMark))
    file->next_ = file->position_.offset = kByteOrderMark.size();
  return file;
}

void TextFile::TakeLineEnd() {
  if (Peek() == '\r') Take();
  if (Peek() == '\n') Take();
}

absl::Status TextFile::status(int64_t row) const {
  if (status_.ok()) return status_;
  return absl::Status(status_.code(), absl::StrCat(path_, ":", position_.line, " (row ", row,
                                                   "): ", status_.message()));
}

absl::Status TextFile::Error(int64_t line, int64_t row, absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ":", line, " (row ", row, "): ", what));
}

absl::Status TextFile::CheckUtf8(absl::string_view text, int64_t line, int64_t row) const {
  const size_t good = ValidUtf8Prefix(text);
  if (good == text.size()) return absl::OkStatus();
  return Error(line, row,
               absl::StrFormat("byte 0x%02X after %d bytes of the text is not UTF-8",
                               static_cast<unsigned char>(text[good]), good));
}

absl::Status TextFile::Seek(const TextPosition& position) {
  if (position.offset < 0)
    return absl::InvalidArgumentError(absl::StrCat(path_, ": the saved state is broken"));
  ASSIGN_OR_RETURN(stream_, ByteStream::Open(path_), path_);
  RETURN_IF_ERROR(stream_->Skip(position.offset), path_);
  position_ = position;
  BeginRow();
  buffer_.clear();
  next_ = 0;
  at_end_ = false;
  status_ = absl::OkStatus();
  return absl::OkStatus();
}

bool TextFile::Fill() {
  if (at_end_ || failed()) return false;
  if (position_.offset - row_begins_ > kMostRowBytes) {
    status_ = absl::InvalidArgumentError(absl::StrCat(
        "more than ", kMostRowBytes, " bytes without the end of a row: is it a file of rows?"));
    return false;
  }
  buffer_.resize(kBufferBytes);
  next_ = 0;
  const absl::StatusOr<size_t> read = stream_->Read(buffer_.data(), buffer_.size());
  status_ = read.status();
  buffer_.resize(read.ok() ? *read : 0);
  at_end_ = buffer_.empty();
  return !at_end_;
}

}  // namespace moonring::data
