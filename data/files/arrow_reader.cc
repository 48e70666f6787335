#include "data/files/arrow_reader.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "comm/status_macros.h"

namespace moonring::data {
namespace {

namespace fs = std::filesystem;

// Where the library may lie, by the program's own path.
std::vector<fs::path> LibraryFolders() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  std::vector<fs::path> folders = {program.parent_path() / "lib", fs::path(program.string() + ".runfiles") / "moonring/data"};
  for (const char* variable : {"RUNFILES_DIR", "TEST_SRCDIR"}) {
    if (const char* folder = std::getenv(variable)) folders.push_back(fs::path(folder) / "moonring/data");
  }
  return folders;
}

absl::StatusOr<OpenArrowRowsFunction*> LoadLibrary() {
  std::error_code ignored;
  for (const fs::path& folder : LibraryFolders()) {
    const fs::path path = folder / kArrowLibrary;
    if (!fs::exists(path, ignored)) continue;
    // It stays loaded; loading it again costs nothing. Local: Arrow brings copies of other libraries, which must not stand in for ours.
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          "Parquet and Arrow files are read with Arrow's C++ library, which pyarrow 26.0 carries: pip install 'pyarrow==26.0.*' for the Python that has torch (",
          dlerror(), ")"));
    }
    return reinterpret_cast<OpenArrowRowsFunction*>(dlsym(library, kOpenArrowRows));
  }
  return absl::FailedPreconditionError(absl::StrCat("Parquet and Arrow files are read with ", kArrowLibrary, ", which is not where this program lies"));
}

// On one line.
std::string Line(absl::string_view text) { return absl::StrReplaceAll(text, {{"\n", " "}}); }

}  // namespace

absl::StatusOr<std::unique_ptr<RowReader>> ArrowReader::Open(const std::string& path, bool parquet) {
  ASSIGN_OR_RETURN(OpenArrowRowsFunction* const open, LoadLibrary(), path);
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
