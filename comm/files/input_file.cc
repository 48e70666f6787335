#include "comm/files/input_file.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "comm/files/confinement.h"

namespace moonring::comm {

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
  return absl::InvalidArgumentError(absl::StrCat(path, " is ", what, ", wanted a regular file"));
}

}  // namespace moonring::comm
