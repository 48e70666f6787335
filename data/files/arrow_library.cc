#include "data/files/arrow_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"

namespace moonring::data {
namespace {

namespace fs = std::filesystem;

// Candidate folders of the library, relative to the executable and to the shared object that
// contains this code.
std::vector<fs::path> LibraryFolders() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  std::vector<fs::path> folders = {
      program.parent_path() / "lib",
      fs::path(program.string() + ".runfiles") / "moonring/data/files"};
  // In a program that embeds Moonring, the library is next to libmoonring.so. In moonring itself,
  // dli_fname is argv[0], which may be just "moonring" and would be resolved against the working
  // directory, so only absolute paths are used.
  if (Dl_info ours; dladdr(reinterpret_cast<const void*>(&ArrowFunction), &ours) != 0 &&
                    ours.dli_fname != nullptr && fs::path(ours.dli_fname).is_absolute()) {
    const fs::path image = fs::canonical(ours.dli_fname, ignored).parent_path();
    folders.insert(folders.end(), {image, image.parent_path() / "data/files"});
  }
  for (const char* variable : {"RUNFILES_DIR", "TEST_SRCDIR"}) {
    const char* const folder = std::getenv(variable);
    if (folder != nullptr && fs::path(folder).is_absolute())
      folders.push_back(fs::path(folder) / "moonring/data/files");
  }
  return folders;
}

}  // namespace

absl::StatusOr<void*> ArrowFunction(const char* name) {
  std::error_code ignored;
  for (const fs::path& folder : LibraryFolders()) {
    const fs::path path = folder / kArrowLibrary;
    if (!fs::exists(path, ignored)) continue;
    // The library is never unloaded, and repeated dlopen calls are cheap. RTLD_LOCAL because Arrow
    // brings its own copies of libraries, which must not replace those of this process.
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("Parquet and Arrow files are read and written with Arrow's C++ library, "
                       "which pyarrow 26.0 carries: pip install 'pyarrow==26.0.*' for "
                       "the Python that has torch (",
                       dlerror(), ")"));
    }
    return dlsym(library, name);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("Parquet and Arrow files are read and written with ", kArrowLibrary,
                   ", which was not found next to this program"));
}

}  // namespace moonring::data
