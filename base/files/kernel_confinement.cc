#include "base/files/kernel_confinement.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status/status_macros.h"

// Constants of newer versions of Landlock, which the installed headers may lack.
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV
#define LANDLOCK_ACCESS_FS_IOCTL_DEV (1ULL << 15)
#endif

namespace moonring::base {
namespace {

constexpr uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kWrite = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE;
constexpr uint64_t kNames = LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                            LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                            LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER;
// Rights that are never granted.
constexpr uint64_t kNever = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                            LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                            LANDLOCK_ACCESS_FS_MAKE_BLOCK;
constexpr uint64_t kDevice = kRead | kWrite | LANDLOCK_ACCESS_FS_IOCTL_DEV;
// Rights that apply to files; the others apply to folders only.
constexpr uint64_t kOfFiles = LANDLOCK_ACCESS_FS_READ_FILE | kWrite | LANDLOCK_ACCESS_FS_IOCTL_DEV;

// The rights that this version of Landlock supports.
uint64_t Known(int version) {
  uint64_t rights = kRead | kWrite | kNames | kNever | kDevice;
  if (version < 2) rights &= ~LANDLOCK_ACCESS_FS_REFER;
  if (version < 3) rights &= ~LANDLOCK_ACCESS_FS_TRUNCATE;
  if (version < 5) rights &= ~LANDLOCK_ACCESS_FS_IOCTL_DEV;
  return rights;
}

absl::Status Failure(const std::string& what) {
  return absl::ErrnoToStatus(errno, absl::StrCat("--sandbox: Landlock: ", what));
}

// Whether the descriptor of a path below /proc/PID must stay open. The inode of such a path is
// freed when the descriptor is closed, and a new lookup creates another inode, which the rule would
// not match.
bool IsKeptOpen(absl::string_view path) {
  return absl::ConsumePrefix(&path, "/proc/") && !path.empty() &&
         (absl::StartsWith(path, "self/") || absl::ascii_isdigit(path[0]));
}

absl::Status Allow(int ruleset, const std::string& path, uint64_t rights) {
  const int file = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (file < 0) return absl::OkStatus();
  const auto close_file = absl::MakeCleanup([&] {
    if (!IsKeptOpen(path)) close(file);
  });
  struct stat status;
  if (fstat(file, &status) != 0) return Failure(path);
  if (!S_ISDIR(status.st_mode)) rights &= kOfFiles;
  const landlock_path_beneath_attr rule{.allowed_access = rights, .parent_fd = file};
  return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0
             ? absl::OkStatus()
             : Failure(path);
}

}  // namespace

absl::StatusOr<int> GiveUpOtherFiles(const OpenableFiles& files) {
  const int version = static_cast<int>(
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION));
  if (version < 1) {
    return absl::UnimplementedError(
        absl::StrCat(errno == EOPNOTSUPP ? "Landlock is disabled" : "the kernel has no Landlock",
                     " (Linux 5.13)"));
  }
  const uint64_t known = Known(version);
  landlock_ruleset_attr wanted{};
  wanted.handled_access_fs = known;
  const int ruleset = static_cast<int>(
      syscall(SYS_landlock_create_ruleset, &wanted, sizeof wanted.handled_access_fs, 0));
  if (ruleset < 0) return Failure("cannot create a ruleset");
  const auto close_ruleset = absl::MakeCleanup([ruleset] { close(ruleset); });
  for (const auto& [paths, rights] :
       {std::pair{&files.folders, kRead | kWrite | kNames}, std::pair{&files.readable, kRead},
        std::pair{&files.devices, kDevice}}) {
    for (const std::string& path : *paths) RETURN_IF_ERROR(Allow(ruleset, path, rights & known));
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Failure("no_new_privs");
  if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) return Failure("restrict_self");
  return version;
}

}  // namespace moonring::base
