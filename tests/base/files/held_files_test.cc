#include "base/files/held_files.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/files/output_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace moonring::base {
namespace {

namespace fs = std::filesystem;
using ::moonring::testing::IsOk;
using ::moonring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

class HeldFilesTest : public ::testing::Test {
 protected:
  HeldFilesTest()
      : folder_(fs::path(::testing::TempDir()) / ("held_files_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~HeldFilesTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ / name; }

  fs::path folder_;
};

// Contents that span several memory blocks, appended in sizes that do not match the blocks, are
// written to the disk by another thread.
TEST_F(HeldFilesTest, IsWrittenOutByAnotherThread) {
  const auto held = std::make_shared<HeldFiles>(folder_, int64_t{32} << 20);
  std::string wanted;
  HeldBytes bytes;
  for (int i = 0; wanted.size() < (9 << 20); ++i) {
    const std::string part(777'777 + i, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(held->Append(bytes, part));
    wanted += part;
  }
  EXPECT_EQ(bytes.size(), wanted.size());
  held->Add(Path("large"), std::move(bytes));
  {
    const HeldFilesScope scope(held);
    ASSERT_THAT(WriteWhole(Path("small"), "few"), IsOk());
    ASSERT_THAT(WriteWhole(Path("small"), "fewer"), IsOk());
  }
  ASSERT_THAT(WriteWhole(Path("beside"), "not held"), IsOk());
  EXPECT_TRUE(fs::exists(Path("beside")));
  EXPECT_FALSE(fs::exists(Path("small")) || fs::exists(Path("large")));
  EXPECT_THAT(held->names(), ElementsAre("large", "small"));
  std::string seen;
  std::thread([&] {
    for (const std::string& name : held->names())
      ASSERT_THAT(held->WriteOut(
                      name, [&](absl::string_view some) { seen.append(some.data(), some.size()); }),
                  IsOk());
  }).join();
  EXPECT_EQ(BytesOf(Path("large")), wanted);
  EXPECT_EQ(BytesOf(Path("small")), "fewer");
  EXPECT_EQ(seen, wanted + "fewer");
}

TEST_F(HeldFilesTest, WhatFindsNoRoomGoesToTheDisk) {
  const auto held = std::make_shared<HeldFiles>(folder_, 10);
  const HeldFilesScope scope(held);
  ASSERT_THAT(WriteWhole(Path("first"), "123456"), IsOk());
  EXPECT_FALSE(held->was_full());
  ASSERT_THAT(WriteWhole(Path("second"), "1234567"), IsOk());
  EXPECT_TRUE(held->was_full());
  EXPECT_EQ(BytesOf(Path("second")), "1234567");
  EXPECT_THAT(held->names(), ElementsAre("first"));
  EXPECT_EQ(held->bytes(), 6);
  ASSERT_THAT(WriteWhole(folder_.string() + "_elsewhere", "x"), IsOk());  // not below the folder
  EXPECT_TRUE(fs::remove(folder_.string() + "_elsewhere"));
}

TEST_F(HeldFilesTest, SaysWhatTheDiskSays) {
  HeldFiles held(Path("gone"), 10);
  HeldBytes bytes;
  ASSERT_TRUE(held.Append(bytes, "x"));
  held.Add(Path("gone/file"), std::move(bytes));
  EXPECT_THAT(held.WriteOut("file", [](absl::string_view) {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("gone/file: cannot be written")));
}

}  // namespace
}  // namespace moonring::base
