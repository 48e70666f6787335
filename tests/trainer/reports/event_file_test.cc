#include "trainer/reports/event_file.h"

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"
#include "trainer/checkpoint/durable_file.h"
#include "trainer/reports/event_records.h"

namespace moonring::trainer {
namespace {

using moonring::testing::IsOk;
using moonring::testing::ReadAll;
using moonring::testing::ScratchFolder;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGolden[] = "tests/golden/events/run.tfevents";

// Returns the events that tests/golden/events/make.py writes.
std::vector<std::string> GoldenEvents() {
  const std::map<std::string, Hyperparameter> parameters = {
      {"bf16", true}, {"learning_rate", 1e-5}, {"stage", "sft"}};
  return {VersionEvent(1700000000.5),
          RestartEvent({1700000001.25, 3}),
          ExperimentEvent({1700000002.0, 0}, parameters, {"train/loss", "eval/loss"}),
          SessionStartEvent({1700000002.0, 0}, parameters),
          HistogramEvent({1700000003.0, 0}, "data/document_lengths",
                         {3, 5, 8, 14, 21, 34, 55, 89, 200, 303}),
          TextEvent({1700000003.5, 2}, "sample", "Ω is *the* answer"),
          ScalarsEvent({1700000004.0, 300}, {{"train/loss", 2.302585092994046},
                                             {"train/learning_rate", 1e-5},
                                             {"train/epoch", 0}}),
          SessionEndEvent({1700000005.0, 300})};
}

TEST(EventRecords, AreThoseOfTensorBoardsOwnWriter) {
  std::string ours;
  for (const std::string& event : GoldenEvents()) ours += Framed(event);
  EXPECT_EQ(ours, ReadAll(kGolden));
}

// Returns the bytes of the first `count` records.
size_t SizeOf(int count) {
  size_t size = 0;
  for (int i = 0; i < count; ++i) size += Framed(GoldenEvents()[i]).size();
  return size;
}

TEST(EventRecords, UpToAStep) {
  const std::string file = ReadAll(kGolden);
  EXPECT_EQ(UpToStep(file, 300).size(), SizeOf(8));
  EXPECT_EQ(UpToStep(file, 299).size(), SizeOf(6));
  EXPECT_EQ(UpToStep(file, 2).size(), SizeOf(1));
  // Reading ends before an incomplete record, and before one whose bytes have changed.
  EXPECT_EQ(UpToStep(file.substr(0, file.size() - 1), 300).size(), SizeOf(7));
  std::string broken = file;
  broken[SizeOf(7) - 6] ^= 1;
  EXPECT_EQ(UpToStep(broken, 300).size(), SizeOf(6));
  EXPECT_EQ(UpToStep("", 300), "");
}

TEST(EventRecords, HistogramsOfLittle) {
  EXPECT_NE(HistogramEvent({}, "none", {}), "");
  EXPECT_NE(HistogramEvent({}, "same", {7, 7, 7}), "");
}

TEST(EventFile, ResumesWithoutDuplicateSteps) {
  const ScratchFolder folder;
  absl::Time now = absl::FromUnixSeconds(1700000000);
  EventFileOptions options{.folder = folder.path(), .clock = [&] { return now; }};
  std::string first;
  {
    auto events = EventFile::Create(options);
    ASSERT_THAT(events, IsOk());
    first = (*events)->path();
    EXPECT_THAT(first, HasSubstr("/events.out.tfevents.1700000000."));
    for (int step = 1; step <= 4; ++step)
      EXPECT_THAT((*events)->AddScalars(step, {{"train/loss", 1.0 / step}}), IsOk());
  }
  const std::string before = ReadAll(first);
  now += absl::Seconds(60);
  options.first_step = 2;
  auto events = EventFile::Create(options);
  ASSERT_THAT(events, IsOk());
  EXPECT_NE((*events)->path(), first);
  EXPECT_THAT((*events)->AddScalars(3, {{"train/loss", 0.25}}), IsOk());
  EXPECT_EQ(ReadAll(first), UpToStep(before, 2));
  EXPECT_LT(ReadAll(first).size(), before.size());
  EXPECT_EQ(ReadAll((*events)->path()),
            Framed(VersionEvent(1700000060)) + Framed(RestartEvent({1700000060, 3})) +
                Framed(ScalarsEvent({1700000060, 3}, {{"train/loss", 0.25}})));
}

TEST(EventFile, AMissingFolder) {
  EXPECT_THAT(EventFile::Create({.folder = "/proc/none"}), Not(IsOk()));
}

}  // namespace
}  // namespace moonring::trainer
