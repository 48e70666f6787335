// Files that a process has given up access to are inaccessible by any path.

#include "base/files/kernel_confinement.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace moonring::base {
namespace {

namespace fs = std::filesystem;

class KernelConfinementTest : public ::testing::Test {
 protected:
  KernelConfinementTest() {
    fs::remove_all(base_);
    for (const char* folder : {"root/inner", "other", "outside"})
      fs::create_directories(base_ / folder);
    std::ofstream(base_ / "outside" / "secret") << "s";
    std::ofstream(base_ / "other" / "file") << "o";
    std::ofstream(root_ / "file") << "f";
    fs::create_symlink(base_ / "outside" / "secret", root_ / "link");
    fs::create_directory_symlink(base_ / "outside", root_ / "folder");
  }

  // Calls `tries` in a process that has given up access to all files but those below the root and
  // the readable ones. Returns their errors (errno; 0: none), or nothing if the kernel has no
  // Landlock.
  std::vector<int> Confined(const std::vector<std::function<int()>>& tries) {
    int ends[2];
    if (pipe(ends) != 0) return {};
    const pid_t child = fork();
    if (child == 0) {
      const auto version =
          GiveUpOtherFiles({.folders = {root_.string(), "/nowhere"},
                            .readable = {(base_ / "other").string(), "/proc/self/statm"},
                            .devices = {"/dev/null"}});
      for (size_t i = 0; version.ok() && i < tries.size(); ++i) {
        errno = 0;
        const int error = tries[i]() < 0 ? errno : 0;
        (void)!write(ends[1], &error, sizeof error);
      }
      _exit(absl::IsUnimplemented(version.status()) || version.ok() ? 0 : 1);
    }
    close(ends[1]);
    std::vector<int> errors;
    for (int error; read(ends[0], &error, sizeof error) == sizeof error;) errors.push_back(error);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    return errors;
  }
  std::function<int()> Open(const fs::path& path, int flags) {
    return [path, flags] { return open(path.c_str(), flags | O_CLOEXEC, 0600); };
  }

  const fs::path base_ = fs::path(::testing::TempDir()) / "kernel_confinement";
  const fs::path root_ = base_ / "root";
};

TEST_F(KernelConfinementTest, OpensWhatIsBelowTheRoots) {
  const fs::path draft = root_ / "inner" / "draft";
  const std::vector<int> errors = Confined({
      Open(root_ / "file", O_RDWR | O_TRUNC),
      Open(draft, O_WRONLY | O_CREAT),
      Open(root_, O_RDONLY | O_DIRECTORY),
      [&] { return rename(draft.c_str(), (root_ / "moved").c_str()); },
      [&] { return mkdir((root_ / "new").c_str(), 0700); },
      [&] { return rmdir((root_ / "new").c_str()); },
      [&] { return unlink((root_ / "moved").c_str()); },
      Open(base_ / "other" / "file", O_RDONLY),
      Open("/dev/null", O_RDWR),
      Open("/proc/self/statm", O_RDONLY),
  });
  for (size_t i = 0; i < errors.size(); ++i) EXPECT_EQ(errors[i], 0) << i;
}

TEST_F(KernelConfinementTest, OpensNothingElse) {
  const std::vector<int> errors = Confined({
      Open(base_ / "outside" / "secret", O_RDONLY),
      Open(root_ / "link", O_RDONLY),
      Open(root_ / "folder" / "secret", O_RDONLY),
      Open(root_ / ".." / "outside" / "secret", O_RDONLY),
      Open(base_ / "outside" / "new", O_WRONLY | O_CREAT),
      Open(root_ / "folder", O_RDONLY | O_DIRECTORY),
      Open(base_ / "other" / "file", O_WRONLY),
      [&] { return unlink((base_ / "other" / "file").c_str()); },
      [&] { return mkfifo((root_ / "pipe").c_str(), 0600); },
      Open("/proc/self/environ", O_RDONLY),
      Open("/etc/passwd", O_RDONLY),
      [] { return execl("/bin/true", "true", nullptr); },
      [] {  // also for threads and processes that are started later
        int error = 0;
        std::thread([&] { error = open("/etc/passwd", O_RDONLY) < 0 ? errno : 0; }).join();
        return errno = error, error == 0 ? 0 : -1;
      },
  });
  for (size_t i = 0; i < errors.size(); ++i) EXPECT_EQ(errors[i], EACCES) << i;
}

// A rename between two folders requires that both are writable.
TEST_F(KernelConfinementTest, MovesNothingOut) {
  const fs::path out = base_ / "other" / "moved";
  const std::vector<int> errors = Confined({
      [&] { return rename((root_ / "file").c_str(), out.c_str()); },
      [&] { return link((root_ / "file").c_str(), out.c_str()); },
  });
  for (const int error : errors) EXPECT_NE(error, 0);
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace moonring::base
