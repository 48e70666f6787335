#include "lua/host/standard_input.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace moonring::lua {
namespace {

constexpr char kName[] = "moonring-script";  // name of the in-memory file

bool IsTaken() {
  char link[64] = "";
  const ssize_t size = readlink("/proc/self/fd/0", link, sizeof link);
  return size > 0 &&
         absl::StartsWith(absl::string_view(link, size), absl::StrCat("/memfd:", kName));
}

}  // namespace

absl::StatusOr<std::string> TakeStandardInput() {
  const bool taken = IsTaken();
  std::string text;
  char buffer[1 << 16];
  for (ssize_t size;;) {
    size = taken ? pread(STDIN_FILENO, buffer, sizeof buffer, static_cast<off_t>(text.size()))
                 : read(STDIN_FILENO, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0)
      return absl::UnavailableError(absl::StrCat("cannot read stdin: ", strerror(errno)));
    if (size == 0) break;
    text.append(buffer, size);
  }
  if (taken) return text;
  const int memory = memfd_create(kName, 0);
  if (memory < 0 || write(memory, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      dup2(memory, STDIN_FILENO) < 0)
    return absl::UnavailableError(absl::StrCat("cannot keep stdin: ", strerror(errno)));
  close(memory);
  return text;
}

}  // namespace moonring::lua
