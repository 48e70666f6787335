#include "trainer/progress.h"

#include <unistd.h>

#include <gtest/gtest.h>

namespace moonring::trainer {
namespace {

// What a Progress writes into a pipe.
class ProgressTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe(ends_), 0); }
  void TearDown() override { close(ends_[0]); }

  ProgressOptions Options(bool bar) {
    return {.total_steps = 4,
            .file = ends_[1],
            .bar = bar,
            .columns = [] { return 70; },
            .clock = [this] { return now_; }};
  }
  std::string Written() {
    close(ends_[1]);
    std::string text(65536, '\0');
    const ssize_t count = read(ends_[0], text.data(), text.size());
    text.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return text;
  }

  int ends_[2];
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(ProgressTest, PlainLinesWithoutATerminal) {
  {
    Progress progress(Options(false));
    now_ += absl::Seconds(3);
    progress.Step(1);
    progress.Report(2, "loss 1.5");
    progress.Line("saved");
  }
  EXPECT_EQ(Written(), "step 2/4  loss 1.5  0:00:03<0:00:03  1.50 s/step\nsaved\n");
  EXPECT_FALSE(OnTerminal(ends_[0]));
}

TEST_F(ProgressTest, BarFitsItsTerminal) {
  {
    Progress progress(Options(true));
    now_ += absl::Milliseconds(20);
    progress.Step(1);  // too soon to be drawn
    now_ += absl::Seconds(1);
    progress.Report(3, "a loss and much more that does not fit into the width of the terminal");
    progress.Line("above");
    progress.Step(4);
  }
  const std::string text = Written();
  EXPECT_EQ(text.find(" 25%"), std::string::npos);
  EXPECT_NE(text.find(" 75% |██████████████████      | 3/4  0:00:01<0:00:00  2.94 steps/s  "),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("terminal"), std::string::npos);
  EXPECT_NE(text.find("\r\x1b[Kabove\n"), std::string::npos);
  EXPECT_NE(text.find("100% |████████████████████████| 4/4"), std::string::npos);
  EXPECT_EQ(text.back(), '\n');
}

TEST_F(ProgressTest, AClosedFileIsNoHarm) {
  ProgressOptions options = Options(true);
  options.file = -1;
  Progress progress(options);
  progress.Report(1, "x");
  Written();
}

}  // namespace
}  // namespace moonring::trainer
