// Every kind of damage to a checkpoint's folder is detected.

#include "trainer/checkpoint/checkpoint_manifest.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"
#include "trainer/checkpoint/checkpoint_publisher.h"

namespace moonring::trainer {
namespace {

namespace fs = std::filesystem;
using ::moonring::testing::ReadAll;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckpointManifestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(Draft());
    folder_.Write("checkpoint-7.partial/model.safetensors", std::string(3'000'000, 'm'));
    folder_.Write("checkpoint-7.partial/empty", "");
    auto sealed = SealFiles(Draft(), {"model.safetensors", "empty"});
    ASSERT_OK(sealed);
    EXPECT_EQ(sealed->at("model.safetensors").bytes, 3'000'000);
    EXPECT_EQ(sealed->at("empty"), SealedFile{});
    manifest_ = {.step = 7, .files = *std::move(sealed)};
  }
  void Publish() { ASSERT_OK(PublishCheckpoint(Draft(), Final(), manifest_)); }
  std::string Draft() const { return folder_ / "checkpoint-7.partial"; }
  std::string Final() const { return folder_ / "checkpoint-7"; }
  void Rewrite(const std::string& name, const std::string& text) const {
    folder_.Write("checkpoint-7/" + name, text);
  }

  ScratchFolder folder_;
  CheckpointManifest manifest_;
};

// The checksum is CRC-32, which by definition is cbf43926 for "123456789".
TEST_F(CheckpointManifestTest, SumsAreCrc32) {
  folder_.Write("digits", "123456789");
  const auto sealed = SealFiles(folder_.path(), {"digits"});
  ASSERT_OK(sealed);
  EXPECT_EQ(sealed->at("digits"), (SealedFile{9, 0xcbf43926}));
}

TEST_F(CheckpointManifestTest, WholeOnceItHasItsName) {
  EXPECT_THAT(
      CheckCheckpoint(Draft()).status(),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("checkpoint-7.partial: no manifest.json")));
  Publish();
  EXPECT_FALSE(fs::exists(Draft()));
  const auto found = CheckCheckpoint(Final());
  ASSERT_OK(found);
  EXPECT_EQ(found->step, 7);
  EXPECT_EQ(found->files, manifest_.files);
}

TEST_F(CheckpointManifestTest, ReplacesAnOlderOneCompletely) {
  fs::create_directories(Final());
  folder_.Write("checkpoint-7/old", "old");
  fs::create_directories(Final() + ".removed");
  folder_.Write("checkpoint-7.removed/left", "by a run that was killed");
  Publish();
  ASSERT_OK(CheckCheckpoint(Final()));
  EXPECT_FALSE(fs::exists(Final() + "/old") || fs::exists(Final() + ".removed"));
  ASSERT_OK(RemoveCheckpoint(Final()));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  EXPECT_OK(RemoveCheckpoint(Final()));
}

TEST_F(CheckpointManifestTest, EveryDamageIsNamed) {
  Publish();
  const std::string model = ReadAll(Final() + "/model.safetensors"),
                    manifest = ReadAll(Final() + "/manifest.json");
  const auto expect = [&](absl::StatusCode code, const std::string& why) {
    EXPECT_THAT(CheckCheckpoint(Final()).status(),
                StatusIs(code, AllOf(HasSubstr("checkpoint-7"), HasSubstr(why))));
  };
  for (const size_t at : {size_t{0}, model.size() / 2, model.size() - 1}) {
    std::string flipped = model;
    flipped[at] ^= 0x10;
    Rewrite("model.safetensors", flipped);
    expect(absl::StatusCode::kDataLoss, "model.safetensors is not what was written");
  }
  Rewrite("model.safetensors", model.substr(0, model.size() - 1));
  expect(absl::StatusCode::kDataLoss, "model.safetensors has 2999999 bytes, expected 3000000");
  fs::remove(Final() + "/model.safetensors");
  expect(absl::StatusCode::kDataLoss, "model.safetensors is missing");
  Rewrite("model.safetensors", model);
  ASSERT_OK(CheckCheckpoint(Final()));
  // If any one byte of the manifest changes, the manifest is rejected, or its meaning is unchanged.
  for (size_t at = 0; at < manifest.size(); ++at) {
    std::string flipped = manifest;
    flipped[at] ^= 0x04;
    Rewrite("manifest.json", flipped);
    const auto found = CheckCheckpoint(Final());
    EXPECT_TRUE(!found.ok() || found->files == manifest_.files) << flipped;
  }
  for (const size_t length : {size_t{0}, manifest.size() / 2}) {
    Rewrite("manifest.json", manifest.substr(0, length));
    expect(absl::StatusCode::kDataLoss, "no manifest of a checkpoint");
  }
  Rewrite("manifest.json", R"({"format": 1, "step": 18446744073709551615, "files": {}})");
  expect(absl::StatusCode::kDataLoss, "no manifest of a checkpoint");
  Rewrite(
      "manifest.json",
      R"({"format": 1, "step": 7, "files": {"x": {"bytes": 18446744073709551615, "crc32": "0"}}})");
  expect(absl::StatusCode::kDataLoss, "what it says of x is broken");
  Rewrite("manifest.json", R"({"format": 2, "step": 7, "files": {}})");
  expect(absl::StatusCode::kUnimplemented, "a checkpoint of format 2, expected 1");
}

TEST_F(CheckpointManifestTest, WhatChangedAfterItWasSealedIsNotPublished) {
  folder_.Write("checkpoint-7.partial/model.safetensors", "m");
  EXPECT_THAT(PublishCheckpoint(Draft(), Final(), manifest_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("changed after it was written")));
  fs::remove(Draft() + "/model.safetensors");
  EXPECT_THAT(PublishCheckpoint(Draft(), Final(), manifest_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is gone")));
  EXPECT_FALSE(fs::exists(Final()));
  EXPECT_THAT(
      SealFiles(Draft(), {"model.safetensors"}).status(),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("model.safetensors: cannot be opened")));
}

// ---- checkpoint_publisher

TEST_F(CheckpointManifestTest, RanksWriteTheSameFolder) {
  folder_.Write("checkpoint-7.partial/states-1", "one");
  fs::create_directories(Final());
  folder_.Write("checkpoint-7/older", "of another run");
  CheckpointPublisher first({.draft = Draft(),
                             .folder = Final(),
                             .names = {"model.safetensors", "empty"},
                             .step = 7,
                             .rank = 0,
                             .ranks = 2});
  while (!fs::exists(Draft() + "/sealed-0.json"))
    absl::SleepFor(absl::Milliseconds(1));  // its own part is done
  EXPECT_FALSE(first.done());
  CheckpointPublisher second({.draft = Draft(),
                              .folder = Final(),
                              .names = {"states-1"},
                              .step = 7,
                              .rank = 1,
                              .ranks = 2});
  EXPECT_OK(second.result());
  EXPECT_OK(first.result());
  const auto found = CheckCheckpoint(Final());
  ASSERT_OK(found);
  EXPECT_EQ(found->files.size(), 3);
  EXPECT_FALSE(fs::exists(Draft()) || fs::exists(Final() + "/older") ||
               fs::exists(Final() + "/sealed-0.json"));
}

TEST_F(CheckpointManifestTest, ARanksFailureIsEveryones) {
  CheckpointPublisher second({.draft = Draft(),
                              .folder = Final(),
                              .names = {"nothing"},
                              .step = 7,
                              .rank = 1,
                              .ranks = 2});
  EXPECT_THAT(second.result(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nothing: cannot be opened")));
  CheckpointPublisher first(
      {.draft = Draft(), .folder = Final(), .names = {"empty"}, .step = 7, .rank = 0, .ranks = 2});
  EXPECT_THAT(first.result(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("rank 1: "), HasSubstr("nothing: cannot be opened"))));
  EXPECT_FALSE(fs::exists(Final()));
}

TEST_F(CheckpointManifestTest, ADeadRankIsNotWaitedForLong) {
  const CheckpointPublisher patient({.draft = Draft(),
                                     .folder = Final(),
                                     .names = {"empty"},
                                     .step = 7,
                                     .rank = 0,
                                     .ranks = 2,
                                     .patience = absl::Milliseconds(200)});
  EXPECT_THAT(patient.result(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                         HasSubstr("rank 1's files did not reach the disk")));
  {  // with an infinite timeout, and it still ends
    const CheckpointPublisher left({.draft = Draft(),
                                    .folder = Final(),
                                    .names = {"empty"},
                                    .step = 7,
                                    .rank = 0,
                                    .ranks = 2,
                                    .patience = absl::InfiniteDuration()});
  }
  EXPECT_FALSE(fs::exists(Final()));
}

}  // namespace
}  // namespace moonring::trainer
