// Sequences that are extended together, compared with each sequence computed in one piece: fp64,
// 1e-12, since sums have another order.
#include "mixers/over_ranks/batch_mixing.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "gtest/gtest.h"
#include "mixers/over_ranks/local_mixing.h"
#include "tests/mixers/mixing_problem.h"
#include "tests/testing/all_close.h"

namespace moonring::mixers {
namespace {

using ::moonring::testing::FeedRows;
using ::moonring::testing::MakeMixingTensors;
using ::moonring::testing::MixingProblem;
using ::moonring::testing::MixingTensors;
using ::moonring::testing::RelativeError;
using ::moonring::testing::RowsOf;

constexpr int64_t kBatchTokens = 300;

std::vector<MixingProblem> BatchProblems() {
  return {{{kBatchTokens}},
          {{kBatchTokens}, 2, 4, 8, 6, 4, true},
          {{kBatchTokens}, 2, 2, 8, 6, 0},
          {{kBatchTokens}, 2, 2, 8, 6, 1},
          {{kBatchTokens}, 2, 4, 8, 6, 4, false, true, true},
          {{kBatchTokens}, 2, 2, 8, 6, 3, false, false}};
}

// Returns the output of one layer for these tokens of the stream.
at::Tensor FeedTokens(PlannedMixing& mixing, const MixingProblem& problem, const MixingTensors& all,
                      const std::vector<int64_t>& tokens, int64_t layer = 0) {
  return FeedRows(mixing, problem, RowsOf(all, at::tensor(tokens, at::kLong)), layer);
}

// A batch of sequences: the tokens of each, with their outputs.
class Batch {
 public:
  Batch(const MixingProblem& problem, const MixingTensors& all) : problem_(problem), all_(all) {}

  int64_t Open() { return Named(mixing_.Open(), {}); }
  int64_t Fork(int64_t name) { return Named(mixing_.Fork(numbers_[name]), name); }
  void Close(int64_t name) { mixing_.Close(numbers_[name]); }

  // Runs the next tokens of each sequence. `rows`: pairs of a sequence and a number of tokens.
  void Run(const std::vector<std::pair<int64_t, int64_t>>& rows) {
    std::vector<int64_t> tokens;
    std::vector<BatchMixing::Rows> begins;
    for (const auto& [name, count] : rows) {
      begins.push_back({numbers_[name], count});
      for (int64_t i = 0; i < count; ++i) {
        tokens_[name].push_back(next_++ % kBatchTokens);
        tokens.push_back(tokens_[name].back());
      }
    }
    for (const int64_t layer : {0, 5}) {
      mixing_.Begin(begins);
      const at::Tensor out = FeedTokens(mixing_, problem_, all_, tokens, layer);
      int64_t row = 0;
      for (const auto& [name, count] : rows) {
        if (layer == 5) outs_[name].push_back(out.narrow(0, row, count));
        row += count;
      }
    }
  }

  void Check(int64_t name) {
    const auto count = static_cast<int64_t>(tokens_[name].size());
    LocalMixing local({count});
    EXPECT_TRUE(RelativeError(at::cat(outs_[name]),
                              FeedTokens(local, problem_, all_, tokens_[name]), 1e-12))
        << "sequence " << name;
  }
  BatchMixing& mixing() { return mixing_; }

 private:
  int64_t Named(int64_t number, std::optional<int64_t> from) {
    const auto name = static_cast<int64_t>(numbers_.size());
    numbers_[name] = number;
    if (from.has_value()) {
      tokens_[name] = tokens_[*from];
      outs_[name] = outs_[*from];
    }
    return name;
  }

  const MixingProblem& problem_;
  const MixingTensors& all_;
  BatchMixing mixing_;
  int64_t next_ = 0;
  std::map<int64_t, int64_t> numbers_;
  std::map<int64_t, std::vector<int64_t>> tokens_;
  std::map<int64_t, std::vector<at::Tensor>> outs_;
};

TEST(BatchMixingTest, SequencesTogetherAreEachByItself) {
  for (const MixingProblem& problem : BatchProblems()) {
    SCOPED_TRACE(::testing::Message() << "taps " << problem.taps << ", by channel "
                                      << problem.by_channel << ", rule " << problem.rule);
    const MixingTensors all = MakeMixingTensors(problem);
    Batch batch(problem, all);
    const int64_t a = batch.Open(), b = batch.Open();
    batch.Run({{a, 70}, {b, 2}});
    batch.Run({{b, 1}, {a, 1}});
    batch.Run({{b, 1}, {a, 3}});
    const int64_t c = batch.Fork(a), d = batch.Fork(a), e = batch.Open();
    batch.Run({{c, 1}, {d, 1}, {b, 1}});
    batch.Run({{d, 1}, {c, 1}, {a, 2}, {e, 65}});
    for (const int64_t name : {a, b, c, d, e}) batch.Check(name);
    batch.Close(c);
    const int64_t bytes = batch.mixing().bytes();
    const int64_t f = batch.Open();  // in the slot of c, whose state must be gone
    batch.Run({{f, 1}, {e, 1}, {d, 1}});
    batch.Run({{f, 1}, {d, 5}});
    for (const int64_t name : {d, e, f}) batch.Check(name);
    EXPECT_EQ(batch.mixing().bytes(), bytes);
    batch.Run({});
    const int64_t g = batch.Fork(f), h = batch.Fork(f), i = batch.Fork(g);
    batch.Run({{g, 1}, {h, 1}, {i, 1}});
    for (const int64_t name : {g, h, i}) batch.Check(name);
  }
}

TEST(BatchMixingTest, RefusesWhatDoesNotFit) {
  const MixingProblem problem = BatchProblems()[0], other{{kBatchTokens}, 2, 4, 8, 8};
  const MixingTensors all = MakeMixingTensors(problem);
  BatchMixing mixing;
  const int64_t sequence = mixing.Open();
  EXPECT_THROW(mixing.Begin({{sequence, 0}}), c10::Error);
  EXPECT_THROW(mixing.Begin({{sequence + 1, 1}}), c10::Error);
  mixing.Begin({{sequence, 2}});
  EXPECT_THROW(FeedTokens(mixing, problem, all, {0, 1, 2}), c10::Error);
  FeedTokens(mixing, problem, all, {0, 1});
  EXPECT_THROW(FeedTokens(mixing, other, MakeMixingTensors(other), {0, 1}), c10::Error);
}

}  // namespace
}  // namespace moonring::mixers
