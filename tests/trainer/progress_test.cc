#include "trainer/reports/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace moonring::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;

// Reads the output of a Progress from a pipe.
class ProgressTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe(ends_), 0); }
  void TearDown() override { close(ends_[0]); }

  ProgressOptions Options(ProgressKind kind) {
    return {.kind = kind,
            .file = ends_[1],
            .json_file = ends_[1],
            .columns = [this] { return columns_; },
            .memory = [] { return kGiB * 3 / 2; },
            .clock = [this] { return now_; }};
  }
  static TrainingProgress Training() {
    return {.total_steps = 300, .memory_limit = 12 * kGiB, .layout = "sp 4 ring"};
  }
  // Makes 100 steps of one second each.
  void Make(Progress& progress) {
    for (int64_t step = 1; step <= 100; ++step) {
      now_ += absl::Seconds(1);
      progress.Step({.step = step,
                     .epoch = 0.5,
                     .tokens = 2000 * step,
                     .loss = 1.83419,
                     .learning_rate = 9.1e-6,
                     .grad_norm = 1.25});
    }
  }
  std::string Written() {
    close(ends_[1]);
    std::string text(1 << 20, '\0');
    size_t size = 0;
    ssize_t count = 0;
    while ((count = read(ends_[0], text.data() + size, text.size() - size)) > 0) size += count;
    text.resize(size);
    return text;
  }
  // Returns the last line that a bar drew, as a terminal shows it.
  static std::string LastDrawn(const std::string& text) {
    const size_t end = text.rfind("\x1b[K"), begin = text.rfind('\r', end);
    return text.substr(begin + 1, end - begin - 1);
  }

  // Returns the bar after 100 steps, on a terminal with this many columns.
  std::string DrawnAt(int columns) {
    columns_ = columns;
    now_ = absl::UnixEpoch();
    close(ends_[0]);
    EXPECT_EQ(pipe(ends_), 0);
    {
      Progress progress(Options(ProgressKind::kBar));
      progress.Train(Training());
      Make(progress);
    }
    return LastDrawn(Written());
  }

  int ends_[2];
  int columns_ = 80;
  absl::Time now_ = absl::UnixEpoch();
};

int64_t CellsOf(const std::string& text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

TEST_F(ProgressTest, PlainLinesWithoutATerminal) {
  {
    Progress progress(Options(ProgressKind::kPlain));
    progress.Train({.total_steps = 4});
    now_ += absl::Seconds(3);
    progress.Step({.step = 2});
    progress.Report(2, "loss 1.5");
    progress.Line("saved");
    progress.EndTraining();
  }
  EXPECT_EQ(Written(), "step 2/4  loss 1.5  0:00:03<0:00:03  1.5 GiB\nsaved\n");
  EXPECT_FALSE(OnTerminal(ends_[0]));
}

TEST_F(ProgressTest, ReportsTheCurrentPhaseAfterHalfAMinute) {
  auto count = std::make_shared<base::WorkCount>();
  {
    Progress progress(Options(ProgressKind::kPlain));
    progress.BeginPhase("preparing data", "rows", count);
    now_ += absl::Seconds(29);
    progress.Tick();
    count->done = 1500;
    now_ += absl::Seconds(2);
    progress.Tick();
    now_ += absl::Seconds(29);
    progress.Tick();
    count->total = 6000;
    now_ += absl::Seconds(1);
    progress.Tick();
    progress.EndPhase();
    progress.Train(Training());
    now_ += absl::Seconds(40);
    progress.Tick();
    Make(progress);
    progress.Tick();
    EXPECT_THAT(progress.spent(), ::testing::ElementsAre(::testing::Pair("preparing data", 61.0)));
  }
  EXPECT_EQ(Written(),
            "preparing data  1500 rows  0:00:31\n"
            "preparing data  1500/6000 rows  0:01:01<0:03:03\n"
            "step 0/300  0:00:40  1.5/12.0 GiB  epoch 0.00  sp 4 ring\n"
            "step 100/300  loss 1.8342  0:02:20<0:04:40  2000 tokens/s  lr 9.1e-06  "
            "grad_norm 1.25  1.5/12.0 GiB  epoch 0.50  sp 4 ring\n");
}

// A save of five minutes at a third of the run: the remaining time stands still meanwhile, and then
// includes the save's share; the rate is that of the steps.
TEST_F(ProgressTest, ASaveIsNoTimeOfSteps) {
  {
    Progress progress(Options(ProgressKind::kPlain));
    progress.Train(Training());
    Make(progress);
    progress.BeginPhase("saving a checkpoint", "", nullptr);
    now_ += absl::Seconds(300);
    progress.EndPhase();
    progress.Tick();
    now_ += absl::Seconds(1);
    progress.Step({.step = 101, .tokens = 202000});
    now_ += absl::Seconds(40);
    progress.Tick();
  }
  EXPECT_EQ(Written(),
            "step 100/300  loss 1.8342  0:06:40<0:03:20  2000 tokens/s  lr 9.1e-06  "
            "grad_norm 1.25  1.5/12.0 GiB  epoch 0.50  sp 4 ring\n"
            "step 101/300  0:07:21<0:13:10  2000 tokens/s  1.5/12.0 GiB  epoch 0.00  sp 4 ring\n");
}

// The file has the lines from before KeepLog, and the reports that a bar does not show.
TEST_F(ProgressTest, KeepsALog) {
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/terminal.log";
  const auto run = [&](bool append) {
    Progress progress(Options(ProgressKind::kBar));
    progress.Line("before");
    ASSERT_TRUE(progress.KeepLog(path, append).ok());
    progress.Train(Training());
    progress.Step({.step = 1});
    progress.Report(1, "loss 2");
    progress.LogOnly("a detail");
  };
  run(false);
  run(true);
  const std::string once =
      "before\nstep 1/300  loss 2  0:00:00<0:00:00  1.5/12.0 GiB\na detail\n";
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), once + once);
  EXPECT_THAT(Written(), Not(HasSubstr("detail")));
}

TEST_F(ProgressTest, LeavesOutTheLeastImportantFirst) {
  const std::vector<std::pair<int, std::string>> wanted = {
      {20, " 33% 100/300"},
      {40, " 33% 100/300  loss 1.8342"},
      {60, " 33% 100/300  loss 1.8342  0:01:40<0:03:20  2000 tokens/s"},
      {80, " 33% |██    | 100/300  loss 1.8342  0:01:40<0:03:20  2000 tokens/s  lr 9.1e-06"},
      {140,
       " 33% |████████                | 100/300  loss 1.8342  0:01:40<0:03:20  2000 tokens/s  "
       "lr 9.1e-06  grad_norm 1.25  1.5/12.0 GiB  epoch 0.50"},
      {170,
       " 33% |████████                | 100/300  loss 1.8342  0:01:40<0:03:20  2000 tokens/s  "
       "lr 9.1e-06  grad_norm 1.25  1.5/12.0 GiB  epoch 0.50  sp 4 ring"}};
  for (const auto& [columns, line] : wanted) EXPECT_EQ(DrawnAt(columns), line) << columns;
}

TEST_F(ProgressTest, NeverWraps) {
  for (int columns = 5; columns <= 200; ++columns)
    EXPECT_LT(CellsOf(DrawnAt(columns)), columns) << columns;
}

TEST_F(ProgressTest, LinesStandAboveTheBar) {
  {
    Progress progress(Options(ProgressKind::kBar));
    progress.Train({.total_steps = 4});
    now_ += absl::Milliseconds(20);
    progress.Step({.step = 1});  // too soon to be drawn
    now_ += absl::Seconds(1);
    progress.Step({.step = 3});
    progress.Line("above");
    progress.Step({.step = 4});
  }
  const std::string text = Written();
  EXPECT_THAT(text, Not(HasSubstr(" 25%")));
  EXPECT_THAT(text, HasSubstr("\r\x1b[Kabove\n\r 75% |████▌ | 3/4  0:00:01<0:00:00"));
  EXPECT_EQ(text.back(), '\n');
  EXPECT_THAT(LastDrawn(text), ::testing::StartsWith("100% |██████| 4/4"));
}

TEST_F(ProgressTest, APhaseTakesTheBarsPlace) {
  auto count = std::make_shared<base::WorkCount>();
  {
    Progress progress(Options(ProgressKind::kBar));
    progress.BeginPhase("loading the model", "weights", count);
    count->total = 8;
    count->done = 2;
    now_ += absl::Milliseconds(100);
    progress.Tick();  // too soon for a phase that may be over at once
    now_ += absl::Seconds(5);
    progress.Tick();
    progress.EndPhase();
  }
  EXPECT_EQ(Written(),
            "\r 25% |█▌    | loading the model  2/8 weights  0:00:05<0:00:15\x1b[K\r\x1b[K");
}

TEST_F(ProgressTest, ColorsTakeNoRoom) {
  ProgressOptions options = Options(ProgressKind::kBar);
  options.colors = true;
  {
    Progress progress(std::move(options));
    progress.Train(Training());
    Make(progress);
  }
  EXPECT_THAT(LastDrawn(Written()),
              HasSubstr("33% |\x1b[36m██    \x1b[0m| 100/300  \x1b[2mloss\x1b[0m 1.8342"));
}

TEST_F(ProgressTest, JsonOfEachStep) {
  {
    Progress progress(Options(ProgressKind::kJson));
    progress.BeginPhase("preparing data", "rows", nullptr);
    now_ += absl::Seconds(2);
    progress.EndPhase();
    progress.Train(Training());
    Make(progress);
    progress.Report(100, "words");
    progress.Tick();
  }
  const std::string text = Written();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 101);
  EXPECT_THAT(text,
              ::testing::StartsWith(R"({"event":"phase","name":"preparing data","seconds":2.0})"));
  const auto last = nlohmann::json::parse(text.substr(text.rfind("{\"event\"")));
  EXPECT_EQ(last, nlohmann::json::parse(R"({"event": "step", "step": 100, "total_steps": 300,
      "epoch": 0.5, "loss": 1.83419, "lr": 9.1e-06, "grad_norm": 1.25, "tokens": 200000,
      "tokens_per_second": 2000.0, "elapsed_seconds": 100.0, "remaining_seconds": 200.0,
      "memory_bytes": 1610612736, "memory_limit_bytes": 12884901888})"));
}

TEST_F(ProgressTest, OffIsWordsAlone) {
  {
    Progress progress(Options(ProgressKind::kOff));
    progress.Train(Training());
    Make(progress);
    progress.Report(100, "words");
    now_ += absl::Seconds(60);
    progress.Tick();
    progress.Line("a line");
  }
  EXPECT_EQ(Written(), "a line\n");
}

TEST_F(ProgressTest, AClosedFileIsNoHarm) {
  ProgressOptions options = Options(ProgressKind::kBar);
  options.file = -1;
  options.watches = true;
  Progress progress(std::move(options));
  progress.Train(Training());
  Make(progress);
  Written();
}

}  // namespace
}  // namespace moonring::trainer
