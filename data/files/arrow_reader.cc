#include "data/files/arrow_reader.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/files/input_file.h"
#include "base/status/status_macros.h"
#include "data/files/arrow_library.h"

namespace moonring::data {
namespace {

// Replaces line feeds by spaces.
std::string Line(absl::string_view text) { return absl::StrReplaceAll(text, {{"\n", " "}}); }

}  // namespace

absl::StatusOr<std::unique_ptr<RowReader>> ArrowReader::Open(const std::string& path,
                                                             bool parquet) {
  RETURN_IF_ERROR(base::CheckInputFile(path));
  ASSIGN_OR_RETURN(void* const function, ArrowFunction(kOpenArrowRows), path);
  auto* const open = reinterpret_cast<OpenArrowRowsFunction*>(function);
  std::string error;
  std::unique_ptr<ArrowRows> arrow(open(path.c_str(), parquet, error));
  if (arrow == nullptr) return absl::InvalidArgumentError(absl::StrCat(path, ": ", Line(error)));
  return std::unique_ptr<RowReader>(new ArrowReader(path, std::move(arrow)));
}

absl::Status ArrowReader::Error(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, " (row ", rows_ + 1, "): ", Line(what)));
}

absl::StatusOr<std::optional<Row>> ArrowReader::Next() {
  if (ended_) return std::nullopt;
  Row row{.file = path_, .number = rows_ + 1};
  std::string error;
  if (!arrow_->Next(row.value, error)) {
    if (!error.empty()) return Error(error);
    ended_ = true;
    return std::nullopt;
  }
  ++rows_;
  return row;
}

absl::Status ArrowReader::Seek(const State& state) {
  std::string error;
  if (!arrow_->Skip(state.rows, error)) return Error(error);
  rows_ = state.rows;
  ended_ = state.ended;
  return absl::OkStatus();
}

}  // namespace moonring::data
