// Limits of a sandbox: the folders in which files may be opened, and the number of bytes.

#include "base/files/confinement.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include <ATen/ATen.h>

#include "absl/status/status.h"
#include "base/files/input_file.h"
#include "base/files/nameless_file.h"
#include "base/files/output_file.h"
#include "base/memory/memory_account.h"
#include "base/threads/parallel_tasks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonring::base {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ConfinementTest : public ::testing::Test {
 protected:
  ConfinementTest() {
    fs::remove_all(base_);
    fs::create_directories(root_ / "inner");
    fs::create_directories(base_ / "outside");
    std::ofstream(base_ / "outside" / "secret") << "s";
    std::ofstream(root_ / "file") << "f";
  }
  std::shared_ptr<Confinement> Confined(int64_t memory = 0) {
    return *Confinement::Create({.roots = {root_.string()},
                                 .readable = {(base_ / "outside" / "secret").string(), "/nowhere"},
                                 .memory = memory});
  }
  const fs::path base_ = fs::path(::testing::TempDir()) / "confinement";
  const fs::path root_ = base_ / "root";
};

TEST_F(ConfinementTest, IsWhatIsBelowARoot) {
  const auto confined = Confined();
  for (const fs::path& path :
       {root_, root_ / "file", root_ / "none" / "yet", root_ / "inner" / ".." / "file",
        fs::path(root_.string() + "/./inner//")}) {
    EXPECT_TRUE(confined->CheckReading(path).ok()) << path;
    EXPECT_TRUE(confined->CheckWriting(path).ok()) << path;
  }
  for (const fs::path& path : {base_, base_ / "root2", fs::path(root_.string() + "2"),
                               root_ / ".." / "outside", root_ / "none" / ".." / ".." / "x",
                               fs::path("/"), fs::path("/etc/passwd"), fs::path("relative")}) {
    EXPECT_EQ(confined->CheckReading(path).code(), absl::StatusCode::kPermissionDenied) << path;
    EXPECT_EQ(confined->CheckWriting(path).code(), absl::StatusCode::kPermissionDenied) << path;
  }
  EXPECT_FALSE(confined->CheckReading("").ok());
  EXPECT_FALSE(confined->CheckReading((root_ / "file").string() + std::string("\0x", 2)).ok());
  EXPECT_THAT(
      std::string(confined->CheckReading("/etc/passwd").message()),
      ::testing::StrEq("--sandbox: /etc/passwd is outside of the roots (" + root_.string() + ")"));
}

// Pipes are rejected without opening them, which would block until there is a writer.
TEST_F(ConfinementTest, WhatIsOpenedIsAFile) {
  const auto says = [](const fs::path& path) {
    return std::string(CheckInputFile(path).message());
  };
  const std::string pipe = root_ / "pipe", link = root_ / "link";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink(pipe, link);
  EXPECT_EQ(CheckInputFile(pipe).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(says(pipe), pipe + " is a named pipe (FIFO), expected a regular file");
  EXPECT_EQ(says(link), link + " is a named pipe (FIFO), expected a regular file");
  EXPECT_EQ(says("/dev/zero"), "/dev/zero is a device, expected a regular file");
  for (const fs::path& path : {root_ / "file", root_, root_ / "none"})
    EXPECT_TRUE(CheckInputFile(path).ok()) << path;
  const ConfinedScope scope(Confined());
  EXPECT_EQ(CheckInputFile("/dev/zero").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CheckInputFile(pipe).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ConfinementTest, FollowsLinks) {
  fs::create_symlink("/etc/passwd", root_ / "out");
  fs::create_symlink(base_ / "outside" / "new",
                     root_ / "dangling");  // a file created through this link would be outside
  fs::create_directory_symlink(base_ / "outside", root_ / "folder");
  fs::create_symlink("inner/../file", root_ / "in");
  fs::create_symlink("../root/file", root_ / "around");
  fs::create_symlink("loop", root_ / "loop");
  const auto confined = Confined();
  for (const char* name :
       {"out", "dangling", "folder/x", "folder/../root/../x", "loop", "inner/../folder"}) {
    EXPECT_FALSE(confined->CheckReading(root_ / name).ok()) << name;
    EXPECT_FALSE(confined->CheckWriting(root_ / name).ok()) << name;
  }
  for (const char* name : {"in", "around"})
    EXPECT_TRUE(confined->CheckWriting(root_ / name).ok()) << name;
  EXPECT_THAT(std::string(confined->CheckReading(root_ / "out").message()),
              HasSubstr("out (/etc/passwd) is outside"));
  EXPECT_FALSE(confined->CheckReading("/proc/self/root/etc/passwd").ok());
  EXPECT_FALSE(confined->CheckReading("/proc/self/cwd/x").ok());
}

TEST_F(ConfinementTest, MayLetMoreBeRead) {
  const auto confined = Confined();
  EXPECT_TRUE(confined->CheckReading(base_ / "outside" / "secret").ok());
  EXPECT_FALSE(confined->CheckWriting(base_ / "outside" / "secret").ok());
  EXPECT_FALSE(confined->CheckReading(base_ / "outside").ok());
}

TEST_F(ConfinementTest, NamesAMissingRoot) {
  EXPECT_EQ(Confinement::Create({.roots = {"/nowhere"}}).status().message(),
            "--sandbox-root: no folder '/nowhere'");
  EXPECT_TRUE((*Confinement::Create({.any_file = true}))->CheckWriting("/etc/passwd").ok());
  EXPECT_FALSE((*Confinement::Create({}))->CheckReading(".").ok());
}

TEST_F(ConfinementTest, IsTheThreadsThatOpensFiles) {
  const std::string outside = base_ / "outside" / "written";
  {
    const ConfinedScope scope(Confined());
    EXPECT_EQ(WriteWhole(outside, "x").code(), absl::StatusCode::kPermissionDenied);
    EXPECT_LT(OpenNamelessFile(base_ / "outside"), 0);
    EXPECT_TRUE(WriteWhole(root_ / "written", "x").ok());
    std::thread([&] {
      EXPECT_TRUE(CheckReading("/etc/passwd").ok());
    }).join();  // a scope applies to its own thread only
    {
      const ConfinedScope none(nullptr);
      EXPECT_TRUE(CheckReading("/etc/passwd").ok());
    }
    EXPECT_FALSE(CheckReading("/etc/passwd").ok());
    RunParallelTasks({1, 1, 1, 1}, [](int64_t) { EXPECT_FALSE(CheckReading("/etc/passwd").ok()); });
  }
  EXPECT_TRUE(WriteWhole(outside, "x").ok());
}

TEST_F(ConfinementTest, HasSoManyBytesForTensors) {
  InstallMemoryAccount();
  const auto confined = Confined(1 << 20);
  at::Tensor outlives;
  {
    const ConfinedScope scope(confined);
    const at::Tensor half = at::zeros({1 << 17});  // 512 KiB
    EXPECT_EQ(confined->charged(), 1 << 19);
    EXPECT_THROW(
        {
          try {
            at::zeros({1 << 18});
          } catch (const c10::OutOfMemoryError& error) {
            EXPECT_THAT(error.what_without_backtrace(),
                        HasSubstr("more than --sandbox-memory allows"));
            throw;
          }
        },
        c10::OutOfMemoryError);
    EXPECT_EQ(confined->charged(), 1 << 19);
    RunParallelTasks({1, 1},
                     [](int64_t) { EXPECT_THROW(at::zeros({1 << 18}), c10::OutOfMemoryError); });
    outlives = at::zeros({1 << 10});
  }
  EXPECT_EQ(confined->charged(), 1 << 12);
  outlives.reset();
  EXPECT_EQ(confined->charged(), 0);
}

// Memory from malloc is charged in addition to tensors and to bytes charged by Charge.
TEST(Confinement, CountsTheHeap) {
  int64_t heap = 5000;
  const auto confined =
      *Confinement::Create({.any_file = true, .memory = 1000, .heap = [&] { return heap; }});
  ASSERT_TRUE(confined->Charge(100));
  confined->CountHeap();  // later growth counts, the present size does not
  EXPECT_EQ(confined->charged(), 100);
  heap += 600;
  EXPECT_EQ(confined->charged(), 100);  // growth is only noticed by CountHeap
  confined->CountHeap();
  EXPECT_EQ(confined->charged(), 700);
  heap += 200;  // bytes charged by Charge are part of the heap too, and count once
  ASSERT_TRUE(confined->Charge(200));
  confined->CountHeap();
  EXPECT_EQ(confined->charged(), 900);
  EXPECT_FALSE(confined->Charge(101));
  heap -= 500;
  EXPECT_TRUE(confined->Charge(101));  // before a charge is refused, the heap is measured again
  heap = 0;
  confined->CountHeap();
  EXPECT_EQ(confined->charged(), 401);
}

}  // namespace
}  // namespace moonring::base
