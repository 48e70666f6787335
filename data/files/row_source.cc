#include "data/files/row_source.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "data/files/arrow_reader.h"
#include "data/files/csv_reader.h"
#include "data/files/file_kind.h"
#include "data/files/json_reader.h"
#include "data/files/text_reader.h"

namespace moonring::data {
namespace {

absl::StatusOr<std::unique_ptr<RowReader>> OpenReader(const std::string& path) {
  const std::optional<FileKind> kind = KindOfFile(path);
  if (!kind.has_value())
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": of unknown kind; ", kFileEndings, " can be read"));
  switch (*kind) {
    case FileKind::kJson:
      return JsonReader::Open(path);
    case FileKind::kCsv:
      return CsvReader::Open(path);
    case FileKind::kText:
      return TextReader::Open(path);
    case FileKind::kParquet:
    case FileKind::kArrow:
      break;
  }
  return ArrowReader::Open(path, *kind == FileKind::kParquet);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowSource>> RowSource::Open(std::vector<std::string> files) {
  auto source = std::unique_ptr<RowSource>(new RowSource(std::move(files)));
  if (source->files_.empty()) return source;
  ASSIGN_OR_RETURN(source->reader_, OpenReader(source->files_[0]));
  return source;
}

absl::StatusOr<std::optional<Row>> RowSource::Next() {
  while (reader_ != nullptr) {
    last_ = place();
    ASSIGN_OR_RETURN(std::optional<Row> row, reader_->Next());
    if (row.has_value()) return row;
    if (file_ + 1 == files_.size()) break;  // keeps the reader, whose state records the end
    ASSIGN_OR_RETURN(reader_, OpenReader(files_[file_ + 1]));
    ++file_;
  }
  return std::nullopt;
}

std::string RowSource::SaveState() const {
  nlohmann::json state = {{"stage", "row_source"}, {"files", files_}, {"file", file_}};
  if (reader_ != nullptr) {
    const RowReader::State at = reader_->state();
    state["at"] = {at.position.offset, at.position.line, at.position.column, at.rows,
                   at.ended ? 1 : 0};
  }
  return state.dump();
}

absl::Status RowSource::LoadState(absl::string_view state) {
  const nlohmann::json saved = nlohmann::json::parse(state, nullptr, /*allow_exceptions=*/false);
  if (!saved.is_object() || saved.value("stage", nlohmann::json()) != "row_source" ||
      !saved.contains("files") || !saved.contains("file")) {
    return absl::InvalidArgumentError("row_source: not a state that a source of rows saved");
  }
  if (saved["files"] != nlohmann::json(files_)) {
    return absl::FailedPreconditionError(absl::StrCat("row_source: the state was saved for ",
                                                      saved["files"].dump(), ", not for ",
                                                      nlohmann::json(files_).dump()));
  }
  if (files_.empty()) return absl::OkStatus();
  const nlohmann::json at = saved.value("at", nlohmann::json::array());
  bool whole = at.is_array() && at.size() == 5 && saved["file"].is_number_unsigned() &&
               saved["file"] < files_.size();
  constexpr int64_t kMost = int64_t{1} << 62;  // bound that prevents overflow in later additions
  for (const nlohmann::json& number : at)
    whole = whole && number.is_number_integer() && number >= 0 && number < kMost;
  if (!whole) return absl::InvalidArgumentError("row_source: the saved state is broken");
  return Seek({.file = saved["file"],
               .at = {.position = {.offset = at[0], .line = at[1], .column = at[2]},
                      .rows = at[3],
                      .ended = at[4] == 1}});
}

RowPlace RowSource::place() const {
  return {.file = file_, .at = reader_ != nullptr ? reader_->state() : RowReader::State()};
}

absl::Status RowSource::Seek(const RowPlace& place) {
  if (place.file >= files_.size())
    return absl::InvalidArgumentError(
        absl::StrCat("row_source: no file ", place.file, " of ", files_.size()));
  ASSIGN_OR_RETURN(std::unique_ptr<RowReader> reader, OpenReader(files_[place.file]));
  RETURN_IF_ERROR(reader->Seek(place.at));
  file_ = place.file;
  reader_ = std::move(reader);
  return absl::OkStatus();
}

}  // namespace moonring::data
