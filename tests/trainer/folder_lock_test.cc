#include "trainer/folder_lock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
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

std::string Folder(const std::string& name) {
  const std::string folder = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name);
  fs::create_directories(folder);
  return folder;
}

size_t Files(const std::string& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(FolderLockTest, IsOnesAtATimeAndSaysWhose) {
  const std::string folder = Folder("one");
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
  const std::string folder = Folder("killed");
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
  std::ifstream file(folder + "/run.lock");
  const std::string words((std::istreambuf_iterator<char>(file)), {});
  EXPECT_TRUE(absl::StartsWith(words, absl::StrCat("process ", getpid(), " on "))) << words;
  EXPECT_FALSE(absl::StrContains(words, "x\n"));
}

// Each holder removes the file: two that meet at such a moment must not both hold one.
TEST(FolderLockTest, NeverTwoAtOnce) {
  const std::string folder = Folder("many");
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

TEST(FolderLockTest, SaysWhereThereIsNone) {
  const absl::Status status = FolderLock::Create("/nowhere/at/all").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(
      status.message(), "/nowhere/at/all/run.lock: cannot be made: No such file or directory"))
      << status;
}

}  // namespace
}  // namespace moonring::trainer
