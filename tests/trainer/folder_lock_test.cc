#include "trainer/checkpoint/folder_lock.h"

#include <linux/capability.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace moonring::trainer {
namespace {

namespace fs = std::filesystem;

std::string LockFolder(const std::string& name) {
  const std::string folder = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name);
  fs::create_directories(folder);
  return folder;
}

std::string Text(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

size_t Files(const std::string& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(FolderLockTest, HasOneHolderAndNamesIt) {
  const std::string folder = LockFolder("one");
  auto first = FolderLock::Create(folder);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = FolderLock::Create(folder).status();  // two runtimes of one process
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(
      second.message(), absl::StrCat(folder, " is written to by process ", getpid(), " on ")))
      << second;
  const pid_t pid = fork();
  if (pid == 0) _exit(absl::IsFailedPrecondition(FolderLock::Create(folder).status()) ? 0 : 1);
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0) << "another process";
  (*first)->Release();
  (*first)->Release();
  EXPECT_EQ(Files(folder), 0);
  EXPECT_TRUE(FolderLock::Create(folder).ok());
  EXPECT_EQ(Files(folder), 0);
}

TEST(FolderLockTest, AKilledHolderIsNoObstacle) {
  const std::string folder = LockFolder("killed");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const auto lock = FolderLock::Create(folder);
    (void)!write(ready[1], lock.ok() ? "y" : "n", 1);
    while (true) pause();
  }
  char held = 0;
  ASSERT_EQ(read(ready[0], &held, 1), 1);
  EXPECT_EQ(held, 'y');
  EXPECT_TRUE(absl::StrContains(FolderLock::Create(folder).status().message(),
                                absl::StrCat("process ", pid, " on ")));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_EQ(Files(folder), 1);
  std::ofstream(folder + "/run.lock", std::ios::app)
      << std::string(200, 'x');  // longer than what comes next
  const auto next = FolderLock::Create(folder);
  ASSERT_TRUE(next.ok()) << next.status();
  const std::string words = Text(folder + "/run.lock");
  EXPECT_TRUE(absl::StartsWith(words, absl::StrCat("process ", getpid(), " on "))) << words;
  EXPECT_FALSE(absl::StrContains(words, "x\n"));
}

// Each owner of the lock removes its file at the end: two processes that do so at the same moment
// must not both get a lock.
TEST(FolderLockTest, NeverTwoAtOnce) {
  const std::string folder = LockFolder("many");
  std::atomic<int> holders = 0, taken = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int tries = 0; tries < 2000; ++tries) {
        const auto lock = FolderLock::Create(folder);
        if (!lock.ok()) continue;
        EXPECT_EQ(++holders, 1);
        ++taken;
        --holders;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(taken, 0);
}

// If the lock file's path is a link or a pipe that somebody else made, it is not written to, and
// opening it does not block.
TEST(FolderLockTest, ALinkOrAPipeInItsPlaceIsNoLock) {
  const std::string folder = LockFolder("planted"), name = folder + "/run.lock";
  std::ofstream(folder + "/precious") << "words";
  fs::create_symlink("precious", name);
  const absl::Status link = FolderLock::Create(folder).status();
  EXPECT_EQ(link.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(link.message(), "run.lock: cannot be made: it is a symbolic link"))
      << link;
  EXPECT_EQ(Text(folder + "/precious"), "words");
  fs::remove(name);
  ASSERT_EQ(mkfifo(name.c_str(), 0600), 0);
  const absl::Status fifo = FolderLock::Create(folder).status();
  EXPECT_EQ(fifo.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(fifo.message(), "run.lock: cannot be locked: it is no file"))
      << fifo;
}

// A file that may only be read, such as another user's lock with mode 0644, also counts as a lock.
// Tested without root's capabilities.
TEST(FolderLockTest, AReadOnlyLockCountsToo) {
  const std::string folder = LockFolder("read_only"), name = folder + "/run.lock";
  auto first = FolderLock::Create(folder);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(chmod(name.c_str(), 0444), 0);
  const auto ends_well = [](const std::function<bool()>& body) {
    const pid_t pid = fork();
    if (pid == 0) {
      __user_cap_header_struct mine{_LINUX_CAPABILITY_VERSION_3, 0};
      __user_cap_data_struct none[2] = {};
      _exit(syscall(SYS_capset, &mine, none) == 0 && body() ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return status == 0;
  };
  const std::string holder = absl::StrCat("process ", getpid(), " on ");
  EXPECT_TRUE(ends_well([&] {
    const absl::Status refused = FolderLock::Create(folder).status();
    return absl::IsFailedPrecondition(refused) && absl::StrContains(refused.message(), holder);
  })) << "while it is held";
  (*first)->Release();
  std::ofstream(name) << "process 1 on elsewhere, since yesterday\n";
  ASSERT_EQ(chmod(name.c_str(), 0444), 0);
  EXPECT_TRUE(ends_well([&] {
    const auto taken = FolderLock::Create(folder);
    return taken.ok() && absl::StartsWith(Text(name), absl::StrCat("process ", getpid()));
  })) << "left by a run that is gone";
}

TEST(FolderLockTest, RemovesNoFileButItsOwn) {
  const std::string folder = LockFolder("replaced"), name = folder + "/run.lock";
  auto lock = FolderLock::Create(folder);
  ASSERT_TRUE(lock.ok()) << lock.status();
  fs::rename(name, folder + "/moved");
  std::ofstream(name) << "another's";
  (*lock)->Release();
  EXPECT_EQ(Text(name), "another's");
}

TEST(FolderLockTest, IsReleasedInAnotherFolderToo) {
  const std::string folder = LockFolder("from_here");
  const fs::path before = fs::current_path();
  fs::current_path(folder);
  auto lock = FolderLock::Create(".");
  fs::current_path(before);
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_EQ(Files(folder), 1);
  (*lock)->Release();
  EXPECT_EQ(Files(folder), 0);
}

// On NFS the lock of a machine that no longer runs remains for a while; the message says so.
TEST(FolderLockTest, SaysThatAnotherMachinesLockEnds) {
  const std::string folder = LockFolder("elsewhere");
  const auto lock = FolderLock::Create(folder);
  ASSERT_TRUE(lock.ok()) << lock.status();
  const auto refused = [&] { return std::string(FolderLock::Create(folder).status().message()); };
  EXPECT_FALSE(absl::StrContains(refused(), "lease")) << refused();
  std::ofstream(folder + "/run.lock") << "process 12 on elsewhere, since yesterday\n";
  EXPECT_TRUE(absl::StrContains(refused(), "its lock ends with its lease")) << refused();
}

TEST(FolderLockTest, MakesTheFolderAndRemovesItWhereNothingHasComeIntoIt) {
  const std::string above = LockFolder("made"), folder = above + "/runs/one";
  auto lock = FolderLock::Create(folder);
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_EQ(Files(folder), 1);
  (*lock)->Release();
  EXPECT_EQ(Files(above), 0);
  lock = FolderLock::Create(folder);
  ASSERT_TRUE(lock.ok()) << lock.status();
  std::ofstream(folder + "/kept") << "words";
  (*lock)->Release();
  EXPECT_EQ(Files(folder), 1);
  EXPECT_TRUE(FolderLock::Create(folder).ok());
  EXPECT_EQ(Text(folder + "/kept"), "words");
}

TEST(FolderLockTest, ACheckSaysWhoHoldsItAndChangesNothing) {
  const std::string folder = LockFolder("checked");
  EXPECT_TRUE(FolderLock::Check(folder + "/missing").ok());
  EXPECT_TRUE(FolderLock::Check(folder).ok());
  EXPECT_EQ(Files(folder), 0);
  std::ofstream(folder + "/run.lock") << "process 1 on elsewhere, since yesterday\n";
  EXPECT_TRUE(FolderLock::Check(folder).ok()) << "left by a run that is gone";
  EXPECT_EQ(Text(folder + "/run.lock"), "process 1 on elsewhere, since yesterday\n");
  const auto lock = FolderLock::Create(folder);
  ASSERT_TRUE(lock.ok()) << lock.status();
  const absl::Status held = FolderLock::Check(folder);
  EXPECT_TRUE(absl::IsFailedPrecondition(held)) << held;
  EXPECT_EQ(held.message(), FolderLock::Create(folder).status().message());
}

TEST(FolderLockTest, SaysWhereThereCanBeNone) {
  const std::string file = LockFolder("not_here") + "/file";
  std::ofstream(file) << "words";
  const absl::Status status = FolderLock::Create(file + "/folder").status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "cannot make the folder " + file + "/folder"))
      << status;
}

}  // namespace
}  // namespace moonring::trainer
