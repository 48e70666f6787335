#include "data/json_source.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "comm/status_macros.h"

namespace moonring::data {
namespace {

constexpr size_t kBufferBytes = 1 << 18;
constexpr int kEnd = -1;

bool IsBlank(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Where a character stands in a file: enough to go back there.
struct Position {
  int64_t offset = 0;
  int64_t line = 1;
  int64_t column = 1;

  void Advance(unsigned char c) {
    ++offset;
    if (c == '\n') {
      ++line;
      column = 1;
    } else if ((c & 0xC0) != 0x80) {  // a byte that begins a character
      ++column;
    }
  }
};

// The parser's own words without its place, which is one inside the row.
std::string Complaint(const nlohmann::json::parse_error& error) {
  std::string text = error.what();
  const size_t column = text.find(", column ");
  const size_t colon = column == std::string::npos ? column : text.find(": ", column);
  if (colon != std::string::npos) text = text.substr(colon + 2);
  constexpr size_t kLongest = 300;  // it quotes what it read last, which may be a whole book
  if (text.size() > kLongest) text = absl::StrCat(text.substr(0, kLongest), "...");
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return text;
}

}  // namespace

std::string Where(const Row& row) { return absl::StrCat(row.file, ":", row.line, " (row ", row.number, ")"); }

class JsonSource::Reader {
 public:
  // Where to go on; `rows` were handed out.
  struct State {
    Position position;
    int64_t rows = 0;
    bool ended = false;
  };

  explicit Reader(std::string path) : path_(std::move(path)) {}
  ~Reader() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  absl::Status Open() {
    file_ = std::fopen(path_.c_str(), "rb");
    if (file_ == nullptr) return absl::NotFoundError(absl::StrCat(path_, ": cannot be opened: ", std::strerror(errno)));
    RETURN_IF_ERROR(Fill());
    if (absl::StartsWith(absl::string_view(buffer_), "\xEF\xBB\xBF")) next_ = state_.position.offset = 3;
    RETURN_IF_ERROR(PassBlanks());
    is_array_ = Peek() == '[';
    if (is_array_) Take();
    return status_;
  }

  const State& state() const { return state_; }

  absl::Status Seek(const State& state) {
    if (std::fseek(file_, 0, SEEK_END) != 0 || state.position.offset < 0 || state.position.offset > std::ftell(file_)) {
      return absl::FailedPreconditionError(absl::StrCat(path_, ": is shorter than when the state was saved"));
    }
    std::fseek(file_, static_cast<long>(state.position.offset), SEEK_SET);
    state_ = state;
    return Fill();
  }

  absl::StatusOr<std::optional<Row>> Next() {
    if (state_.ended) return std::nullopt;
    RETURN_IF_ERROR(PassBlanks());
    if (is_array_) {
      ASSIGN_OR_RETURN(const bool more, BeforeElement());
      if (!more) return std::nullopt;
    } else if (Peek() == kEnd) {
      RETURN_IF_ERROR(status_);
      state_.ended = true;
      return std::nullopt;
    }
    Row row{.file = path_, .number = state_.rows + 1, .line = state_.position.line};
    const Position begin = state_.position;
    is_array_ ? TakeElement() : TakeLine();
    RETURN_IF_ERROR(status_);
    try {
      row.value = OrderedJson::parse(text_);
    } catch (const OrderedJson::parse_error& error) {
      return ParseError(begin, error);
    }
    ++state_.rows;
    return row;
  }

 private:
  // Reads the separator before an element; false at the array's end. Only blanks may follow it.
  absl::StatusOr<bool> BeforeElement() {
    if (Peek() == ']') {
      Take();
      RETURN_IF_ERROR(PassBlanks());
      if (Peek() != kEnd) return Error(state_.position, "more text after the end of the array");
      RETURN_IF_ERROR(status_);
      state_.ended = true;
      return false;
    }
    if (state_.rows > 0) {
      if (Peek() != kEnd && Peek() != ',') return Error(state_.position, "expected ',' or ']' after an element of the array");
      if (Peek() == ',') Take();
      RETURN_IF_ERROR(PassBlanks());
      if (Peek() == ']') return Error(state_.position, "expected another element after ','");
    }
    RETURN_IF_ERROR(status_);
    if (Peek() == kEnd) return Error(state_.position, "the file ends inside the array: it is cut off, or lacks a ']'");
    return true;
  }

  // Takes the text of one element: up to the bracket that closes it, or to the separator where it is a bare value.
  // Where the text is broken this stops early or late, but at or after the fault, which the parser then finds.
  void TakeElement() {
    text_.clear();
    int depth = 0;
    bool in_string = false;
    for (int c = Peek(); c != kEnd; c = Peek()) {
      if (!in_string && depth == 0 && (c == ',' || c == ']' || c == '}' || IsBlank(c)) && !text_.empty()) return;
      text_.push_back(static_cast<char>(c));
      Take();
      if (in_string) {
        if (c == '\n') return;  // no string holds a bare line feed: its closing quote is missing
        if (c == '\\' && Peek() != kEnd) {
          text_.push_back(static_cast<char>(Peek()));
          Take();
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

  void TakeLine() {
    text_.clear();
    for (int c = Peek(); c != kEnd && c != '\n'; c = Peek()) {
      text_.push_back(static_cast<char>(c));
      Take();
    }
  }

  absl::Status ParseError(Position begin, const nlohmann::json::parse_error& error) const {
    // error.byte counts the characters read, the offending one included.
    const size_t good = error.byte > 0 ? error.byte - 1 : 0;
    for (size_t i = 0; i < good && i < text_.size(); ++i) begin.Advance(static_cast<unsigned char>(text_[i]));
    const bool at_end = good >= text_.size();
    absl::string_view hint;
    if (at_end && !is_array_) hint = " (the line ends here: without '[' at its beginning, a file holds one whole JSON value a line)";
    if (at_end && is_array_ && Exhausted()) hint = " (the file ends here)";
    return Error(begin, absl::StrCat(Complaint(error), hint));
  }

  absl::Status Error(const Position& at, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ":", at.line, ":", at.column, ": ", what));
  }

  absl::Status PassBlanks() {
    while (IsBlank(Peek())) Take();
    return status_;
  }

  bool Exhausted() const { return next_ >= buffer_.size() && std::feof(file_); }

  int Peek() {
    if (next_ >= buffer_.size()) {
      if (!status_.ok() || std::feof(file_)) return kEnd;
      status_ = Fill();
      if (!status_.ok() || buffer_.empty()) return kEnd;
    }
    return static_cast<unsigned char>(buffer_[next_]);
  }

  void Take() { state_.position.Advance(static_cast<unsigned char>(buffer_[next_++])); }

  absl::Status Fill() {
    buffer_.resize(kBufferBytes);
    next_ = 0;
    buffer_.resize(std::fread(buffer_.data(), 1, kBufferBytes, file_));
    if (std::ferror(file_)) return absl::UnavailableError(absl::StrCat(path_, ": cannot be read: ", std::strerror(errno)));
    return absl::OkStatus();
  }

  std::string path_;
  std::FILE* file_ = nullptr;
  bool is_array_ = false;
  std::string buffer_;
  size_t next_ = 0;  // in buffer_
  State state_;
  std::string text_;     // of the row at hand
  absl::Status status_;  // what went wrong while Peek() read
};

JsonSource::JsonSource(std::vector<std::string> files) : files_(std::move(files)) {}
JsonSource::~JsonSource() = default;

absl::StatusOr<std::unique_ptr<JsonSource>> JsonSource::Open(std::vector<std::string> files) {
  auto source = std::unique_ptr<JsonSource>(new JsonSource(std::move(files)));
  if (!source->files_.empty()) RETURN_IF_ERROR(source->OpenFile(0));
  return source;
}

absl::Status JsonSource::OpenFile(size_t file) {
  auto reader = std::make_unique<Reader>(files_[file]);
  RETURN_IF_ERROR(reader->Open());
  file_ = file;
  reader_ = std::move(reader);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Row>> JsonSource::Next() {
  while (reader_ != nullptr) {
    ASSIGN_OR_RETURN(std::optional<Row> row, reader_->Next());
    if (row.has_value()) return row;
    if (file_ + 1 == files_.size()) break;  // keeps the reader: its state says that it has ended
    RETURN_IF_ERROR(OpenFile(file_ + 1));
  }
  return std::nullopt;
}

std::string JsonSource::SaveState() const {
  nlohmann::json state = {{"stage", "json_source"}, {"files", files_}, {"file", file_}};
  if (reader_ != nullptr) {
    const Reader::State& at = reader_->state();
    state["at"] = {at.position.offset, at.position.line, at.position.column, at.rows, at.ended ? 1 : 0};
  }
  return state.dump();
}

absl::Status JsonSource::LoadState(absl::string_view state) {
  const nlohmann::json saved = nlohmann::json::parse(state, nullptr, /*allow_exceptions=*/false);
  if (!saved.is_object() || saved.value("stage", nlohmann::json()) != "json_source" || !saved.contains("files") || !saved.contains("file")) {
    return absl::InvalidArgumentError("json_source: not a state that a json source saved");
  }
  if (saved["files"] != nlohmann::json(files_)) {
    return absl::FailedPreconditionError(
        absl::StrCat("json_source: the state was saved for ", saved["files"].dump(), ", not for ", nlohmann::json(files_).dump()));
  }
  if (files_.empty()) return absl::OkStatus();
  const nlohmann::json at = saved.value("at", nlohmann::json::array());
  bool whole = at.is_array() && at.size() == 5 && saved["file"].is_number_unsigned() && saved["file"] < files_.size();
  for (const nlohmann::json& number : at) whole = whole && number.is_number_integer();
  if (!whole) return absl::InvalidArgumentError("json_source: the saved state is broken");
  const size_t file = saved["file"];
  auto reader = std::make_unique<Reader>(files_[file]);
  RETURN_IF_ERROR(reader->Open());
  RETURN_IF_ERROR(reader->Seek({.position = {.offset = at[0], .line = at[1], .column = at[2]}, .rows = at[3], .ended = at[4] == 1}));
  file_ = file;
  reader_ = std::move(reader);
  return absl::OkStatus();
}

}  // namespace moonring::data
