#include "base/files/input_file.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"

namespace moonring::base {

absl::Status CheckInputFile(const std::string& path) {
  if (absl::Status allowed = CheckReading(path); !allowed.ok()) return allowed;
  namespace fs = std::filesystem;
  std::error_code ignored;
  const char* what = nullptr;
  switch (fs::status(path, ignored).type()) {
    case fs::file_type::fifo:
      what = "a named pipe (FIFO)";
      break;
    case fs::file_type::socket:
      what = "a socket";
      break;
    case fs::file_type::character:
    case fs::file_type::block:
      what = "a device";
      break;
    default:
      return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(path, " is ", what, ", expected a regular file"));
}

absl::Status CheckFileSize(const std::string& path, int64_t most) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size <= static_cast<uintmax_t>(most)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, " has ", size,
                                                 " bytes; a file of its kind is read whole and "
                                                 "may have at most ",
                                                 most));
}

absl::Status CheckWholeFile(const std::string& path, int64_t most) {
  if (absl::Status input = CheckInputFile(path); !input.ok()) return input;
  return CheckFileSize(path, most);
}

}  // namespace moonring::base
