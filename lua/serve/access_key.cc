#include "lua/serve/access_key.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/files/confinement.h"
#include "base/status/status_macros.h"
#include "comm/store/secret.h"

namespace moonring::serve {
namespace {

constexpr absl::string_view kKeyBeginning = "tml-";

std::string NewKey() { return absl::StrCat(kKeyBeginning, comm::RandomHex(16)); }

bool IsKey(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, kKeyBeginning) || text.empty()) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_'; });
}

absl::StatusOr<std::string> Write(const std::string& path, const std::string& key) {
  const std::string line = key + "\n";
  // O_EXCL: a file or a link that somebody else put there in between is not written to.
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool wrote =
      file >= 0 && write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int error = errno;
  const bool closed = file < 0 || close(file) == 0;
  if (wrote && closed) return key;
  if (file >= 0) unlink(path.c_str());
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot be written"));
}

}  // namespace

absl::StatusOr<std::string> KeptKey(const std::string& path) {
  RETURN_IF_ERROR(base::CheckReading(path));
  RETURN_IF_ERROR(base::CheckWriting(path));
  std::ifstream file(path);
  if (!file) return Write(path, NewKey());
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const absl::string_view key = absl::StripAsciiWhitespace(text);
  if (IsKey(key)) return std::string(key);
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      ": expected a key, tml- and then letters, digits, '-' or '_'; remove the file for a "
      "new key"));
}

}  // namespace moonring::serve
