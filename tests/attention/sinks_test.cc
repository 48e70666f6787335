// Attention sinks (a learned logit per head that takes a share of the softmax): every strategy
// equals the definition, with one more column of scores, in fp64: outputs and gradients of q, k and
// v for each rank's rows, and the sink's gradient summed over ranks.

#include <cmath>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "attention/kernels/sink.h"
#include "attention/strategy/strategies.h"
#include "gtest/gtest.h"
#include "tests/attention/candidates.h"
#include "tests/attention/problem.h"
#include "tests/testing/connected_ranks.h"
#include "tests/testing/masked_attention.h"
#include "tests/testing/status_matchers.h"

namespace moonring::attention {
namespace {

struct SinkProblem {
  Problem rows;
  at::Tensor sink_H;

  ScoreRule rule(const at::Tensor& sink) const {
    ScoreRule rule = rows.rule();
    rule.sink_H = sink;
    return rule;
  }
};

struct SinkSolution {
  Solution rows;
  at::Tensor dsink;
};

// Problems with sinks that take from almost nothing to almost all of the softmax.
std::vector<SinkProblem> Problems(at::ScalarType type) {
  at::manual_seed(5);
  std::vector<SinkProblem> problems;
  const auto add = [&](std::vector<int64_t> lengths, const Heads& heads, int64_t window,
                       double softcap) {
    const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
    problems.push_back({RandomProblem(std::move(lengths), heads, type, window, softcap),
                        at::linspace(-3, 9, heads.heads, wide)});
  };
  add({1, 2, 63, 0, 330, 64, 65, 0, 130}, {9, 3, 16}, 0, 0.0);
  add({65, 1, 0, 129}, {4, 4, 8}, 20, 0.0);
  add({200}, {8, 2, 16}, 0, 1.5);
  add({1, 0}, {4, 1, 16}, 0, 0.0);
  add({130, 33}, {4, 2, 24, 16}, 0, 0.0);
  return problems;
}

SinkSolution DifferentiatedSinks(PlannedAttention& attention, const SinkProblem& problem,
                                 const std::function<at::Tensor(const at::Tensor&)>& cut,
                                 bool resumed) {
  const auto leaf = [](const at::Tensor& tensor) { return tensor.clone().requires_grad_(); };
  const at::Tensor q = leaf(cut(problem.rows.q)), k = leaf(cut(problem.rows.k)),
                   v = leaf(cut(problem.rows.v)), sink = leaf(problem.sink_H);
  KeptAttention kept;
  if (resumed) {
    at::NoGradGuard no_grad;
    attention.Forward(q, k, v, problem.rule(sink), &kept);
  }
  const at::Tensor out = attention.Forward(q, k, v, problem.rule(sink), resumed ? &kept : nullptr);
  const auto gradients =
      torch::autograd::grad({out}, {q, k, v, sink}, {cut(problem.rows.dout).to(out.scalar_type())});
  return {{out.detach(), gradients[0], gradients[1], gradients[2]}, gradients[3]};
}

SinkSolution SinksWrittenOut(const SinkProblem& problem) {
  testing::MaskedAttention attention(problem.rows.lengths);
  const SinkProblem in_double{InDouble(problem.rows), problem.sink_H.to(at::kDouble)};
  return DifferentiatedSinks(
      attention, in_double, [](const at::Tensor& all) { return all; },
      /*resumed=*/false);
}

class SinksTest : public ::testing::TestWithParam<Case> {
 protected:
  void Expect(at::ScalarType type, double bound, bool resumed) {
    const std::vector<SinkProblem> problems = Problems(type);
    testing::ConnectedRanks ranks(GetParam().ranks);
    std::vector<std::vector<SinkSolution>> got(ranks.size());
    std::vector<std::shared_ptr<const comm::Layout>> layouts(problems.size());
    ranks.Run([&](std::shared_ptr<comm::World> world) {
      auto attention = CreateAttention({GetParam().strategy, world->communicator()});
      ASSERT_OK(attention);
      for (size_t i = 0; i < problems.size(); ++i) {
        const auto layout = MakeLayout(**attention, problems[i].rows.lengths);
        const auto plan = (*attention)->Plan(layout);
        ASSERT_OK(plan);
        got[world->rank()].push_back(DifferentiatedSinks(
            **plan, problems[i],
            [&](const at::Tensor& all) { return layout->Cut(all, world->rank()); }, resumed));
        if (world->rank() == 0) layouts[i] = layout;
      }
    });
    for (size_t i = 0; i < problems.size(); ++i) {
      SCOPED_TRACE(Said(problems[i].rows));
      const SinkSolution want = SinksWrittenOut(problems[i]);
      at::Tensor dsink = at::zeros_like(want.dsink);
      for (int rank = 0; rank < ranks.size(); ++rank) {
        for (size_t m = 0; m < std::size(kMembers); ++m) {
          EXPECT_LE(ErrorOf(got[rank][i].rows.*kMembers[m],
                            layouts[i]->Cut(want.rows.*kMembers[m], rank)),
                    bound)
              << kNames[m] << " of rank " << rank;
        }
        dsink += got[rank][i].dsink.to(at::kDouble);
      }
      EXPECT_LE(ErrorOf(dsink, want.dsink), bound) << "dsink";
    }
  }
};

// Bounds: those of attention without sinks (conformance_test.cc). bf16 also rounds the inputs of
// the products and the output from which the sink's gradient is computed.
TEST_P(SinksTest, EqualWhatIsWrittenOut) {
  Expect(at::kDouble, 1e-12, /*resumed=*/false);
  Expect(at::kFloat, 4e-6, /*resumed=*/false);
  Expect(at::kBFloat16, 2e-2, /*resumed=*/false);
}

TEST_P(SinksTest, ResumeFromWhatAForwardKept) { Expect(at::kDouble, 1e-12, /*resumed=*/true); }

INSTANTIATE_TEST_SUITE_P(Strategies, SinksTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& info) { return NameOf(info.param); });

// A very low sink logit changes nothing; a very high one takes the whole softmax.
TEST(SinkTest, TakesItsShareOfTheSoftmax) {
  const at::Tensor out = at::ones({2, 3, 4}, at::kDouble), lse = at::zeros({2, 3}, at::kDouble);
  AddSink(at::tensor({-1000.0, 0.0, 1000.0}, at::kDouble), {out, lse});
  EXPECT_EQ(out[0][0][0].item<double>(), 1.0);
  EXPECT_NEAR(out[0][1][0].item<double>(), 0.5, 1e-15);
  EXPECT_EQ(out[0][2][0].item<double>(), 0.0);
  EXPECT_NEAR(lse[1][1].item<double>(), std::log(2.0), 1e-15);
  EXPECT_EQ(lse[1][2].item<double>(), 1000.0);
}

}  // namespace
}  // namespace moonring::attention
