#include "base/files/inside_name.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/confinement.h"
#include "base/files/output_file.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::base {
namespace {

namespace fs = std::filesystem;
using ::moonring::testing::IsOk;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(InsideNameTest, IsBelowAFolder) {
  for (const char* name : {"a", "config.json", "data/train-00000-of-00001.parquet", "...", "..a",
                           "a b", "gr\u00fc\u00df", "-a", ".hidden"})
    EXPECT_THAT(CheckInsideName(name), IsOk()) << name;
  for (const char* name : {"", "/", "/etc/passwd", "..", ".", "../a", "a/..", "a/../b", "a//b",
                           "a/", "./a", "a\nb", "a\x1b[0m", "a\x7f"})
    EXPECT_THAT(CheckInsideName(name), StatusIs(kInvalid, HasSubstr("is no name inside"))) << name;
  EXPECT_THAT(CheckInsideName(absl::string_view("a\0.json", 7)),
              StatusIs(kInvalid, HasSubstr("'a\\x00.json'")));
}

TEST(InsideNameTest, APlainNameHasNoSlash) {
  EXPECT_THAT(CheckPlainName("model-00001-of-00002.safetensors"), IsOk());
  EXPECT_THAT(CheckPlainName("a/b"), StatusIs(kInvalid, HasSubstr("not a plain file name")));
  EXPECT_THAT(CheckPlainName(".."), StatusIs(kInvalid, HasSubstr("the part '..'")));
}

TEST(InsideNameTest, ACommitIs40Digits) {
  const std::string digits(40, 'a');
  EXPECT_TRUE(IsCommit(digits));
  for (const std::string& text :
       {digits + "a", digits.substr(1), std::string(40, 'A'), std::string(40, 'g'),
        "../" + digits.substr(3), digits.substr(1) + std::string(1, '\0'), std::string()})
    EXPECT_FALSE(IsCommit(text)) << text;
}

TEST(InsideNameTest, LinksStayBelow) {
  ScratchFolder scratch;
  const fs::path root = scratch.path();
  fs::create_directories(root / "repository/blobs");
  fs::create_directories(root / "repository/checkouts/c");
  std::ofstream(root / "repository/blobs/etag") << "x";
  std::ofstream(root / "outside") << "x";
  const fs::path checkout = root / "repository/checkouts/c";
  fs::create_symlink("../../blobs/etag", checkout / "in");
  fs::create_symlink("../../../outside", checkout / "out");
  fs::create_symlink(root / "nothing", checkout / "dangling");
  fs::create_symlink("round", checkout / "round");
  fs::create_directory_symlink(root, checkout / "folder");
  const std::string repository = (root / "repository").string();
  EXPECT_THAT(CheckStaysBelow(repository, checkout / "in"), IsOk());
  EXPECT_THAT(CheckStaysBelow(repository, checkout / "not there"), IsOk());
  for (const char* name : {"out", "dangling", "round", "folder/outside", "../../../outside"})
    EXPECT_THAT(CheckStaysBelow(repository, checkout / name),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         AllOf(HasSubstr(name), HasSubstr("leads out of"))));
  // A folder whose name begins with the other folder's name is a different folder.
  fs::create_directories(root / "repository2");
  EXPECT_FALSE(CheckStaysBelow(repository, root / "repository2/a").ok());
}

// Paths with a NUL are rejected, also without a sandbox: the system would open the path before the
// NUL.
TEST(InsideNameTest, NoPathHasANul) {
  ScratchFolder scratch;
  const std::string path = scratch.path() + std::string("/a\0.json", 8);
  EXPECT_THAT(CheckReading(path), StatusIs(kInvalid, HasSubstr("a path must not contain a NUL")));
  EXPECT_THAT(CheckWriting(path), StatusIs(kInvalid, HasSubstr("a\\x00.json")));
  EXPECT_THAT(WriteWhole(path, "text"),
              StatusIs(kInvalid, HasSubstr("a path must not contain a NUL")));
  EXPECT_FALSE(fs::exists(scratch.path() + "/a"));
}

}  // namespace
}  // namespace moonring::base
