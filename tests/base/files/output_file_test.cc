#include "base/files/output_file.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace moonring::base {
namespace {

namespace fs = std::filesystem;
using ::moonring::testing::IsOk;
using ::moonring::testing::StatusIs;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest()
      : folder_(fs::path(::testing::TempDir()) / ("output_file_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~OutputFileTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ / name; }
  size_t Files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  }

  fs::path folder_;
};

TEST_F(OutputFileTest, IsThereWholeOrNotAtAll) {
  ASSERT_OK(WriteWhole(Path("a"), "first"));
  {
    auto file = OutputFile::Create(Path("a"));
    ASSERT_TRUE(file.ok());
    ASSERT_OK((*file)->Append(std::string(200'000, 'x')));  // more than the buffer holds
    EXPECT_EQ(Read(Path("a")), "first");
  }
  EXPECT_EQ(Read(Path("a")), "first");
  EXPECT_EQ(Files(), 1);
  const std::string large(200'001, 'y');
  ASSERT_OK(WriteWhole(Path("a"), large));
  EXPECT_EQ(Read(Path("a")), large);
  EXPECT_EQ(Files(), 1);
}

// A process that is killed while writing leaves no file: the draft has no name.
TEST_F(OutputFileTest, AKilledProcessLeavesNoDraft) {
  ASSERT_OK(WriteWhole(Path("a"), "first"));
  for (const char* name : {"a", "new"}) {
    const pid_t pid = fork();
    if (pid == 0) {
      auto file = OutputFile::Create(Path(name));
      _exit(file.ok() && (*file)->Append(std::string(200'000, 'x')).ok()
                ? 0
                : 1);  // more than the buffer holds; _exit calls no destructor
    }
    int status = -1;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(Files(), 1) << name;
  }
  EXPECT_EQ(Read(Path("a")), "first");
}

// A leftover draft does no harm. On a file system where drafts have names, which contain the
// process id, a later process may have the id of a killed one.
TEST_F(OutputFileTest, ALeftoverDraftDoesNotMatter) {
  std::ofstream(Path("a." + std::to_string(getpid()) + ".tmp"))
      << "of an earlier process, and longer";
  ASSERT_OK(WriteWhole(Path("a"), "first"));
  EXPECT_EQ(Read(Path("a")), "first");
  ASSERT_OK(WriteWhole(Path("a"), "second"));
  EXPECT_EQ(Read(Path("a")), "second");
  EXPECT_EQ(Files(), 1);
}

// Links are replaced, not followed: whoever created the folder may have created a link to a user's
// file, or to a path without a file.
TEST_F(OutputFileTest, ReplacesALink) {
  ASSERT_OK(WriteWhole(Path("target"), "mine"));
  fs::create_symlink("target", Path("link"));
  fs::create_symlink("nothing", Path("dangling"));
  for (const char* name : {"link", "dangling"}) {
    ASSERT_OK(WriteWhole(Path(name), "text"));
    EXPECT_FALSE(fs::is_symlink(Path(name)));
    EXPECT_EQ(Read(Path(name)), "text");
  }
  EXPECT_EQ(Read(Path("target")), "mine");
  EXPECT_FALSE(fs::exists(Path("nothing")));
  // A link with the draft's name, which can be guessed, is replaced too.
  const std::string draft = Path("a") + "." + std::to_string(getpid()) + ".tmp";
  ASSERT_OK(WriteWhole(Path("a"), "first"));
  fs::create_symlink("target", draft);
  ASSERT_OK(WriteWhole(Path("a"), "second"));
  EXPECT_EQ(Read(Path("a")), "second");
  EXPECT_EQ(Read(Path("target")), "mine");
}

// Devices, pipes and other files that are not regular are written directly. The links are in this
// test's folder: if the code replaced its target by mistake, it would replace the link, not the
// device.
TEST_F(OutputFileTest, WritesToWhatIsNoRegularFile) {
  fs::create_symlink("/dev/null", Path("null"));
  EXPECT_OK(WriteWhole(Path("null"), "gone"));
  EXPECT_TRUE(fs::is_symlink(Path("null")));
  EXPECT_TRUE(fs::is_character_file(Path("null")));
  fs::create_symlink("/dev/full", Path("full"));
  EXPECT_THAT(WriteWhole(Path("full"), "text"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       EndsWith("full: cannot be written: No space left on device")));
  EXPECT_TRUE(fs::is_symlink(Path("full")));

  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = Read(Path("pipe")); });
  EXPECT_OK(WriteWhole(Path("pipe"), "through"));
  reader.join();
  EXPECT_EQ(read, "through");
}

TEST_F(OutputFileTest, SaysWhyItCannot) {
  EXPECT_THAT(WriteWhole(Path("none/a"), ""),
              StatusIs(absl::StatusCode::kNotFound,
                       EndsWith("none/a: cannot be written: No such file or directory")));
  ASSERT_OK(WriteWhole(Path("a"), ""));
  EXPECT_THAT(WriteWhole(Path("a/b"), ""),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("Not a directory")));
  EXPECT_THAT(WriteWhole(folder_.string(), ""),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("Is a directory")));
}

}  // namespace
}  // namespace moonring::base
