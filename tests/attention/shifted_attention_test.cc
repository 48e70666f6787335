// Shifted sparse attention (S2-Attn): every strategy equals attention computed with the roll of its
// definition, in fp64 and fp32, for outputs and gradients of each rank's rows and for all kinds of
// heads. The bytes sent are those that its cost predicts.

#include "attention/strategy/shifted_attention.h"

#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "attention/strategy/micro_batch_share.h"
#include "attention/strategy/strategies.h"
#include "comm/layout.h"
#include "comm/mesh.h"
#include "comm/process_groups.h"
#include "comm/sequence.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/candidates.h"
#include "tests/attention/problem.h"
#include "tests/testing/all_close.h"
#include "tests/testing/allocator_watch.h"
#include "tests/testing/connected_ranks.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::attention {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::ConnectedRanks;
using ::moonring::testing::RunRanks;
using ::moonring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The position of token t in the rolled order of a document that is padded to a multiple of 8.
int64_t PlaceOf(int64_t t, int64_t length, int half) {
  const int64_t filled = (length + 7) / 8 * 8, group = filled / 4;
  return half == 0 ? t : (t + filled - group / 2) % filled;
}

// Returns bool [T, T]: the keys to which one half of the heads must not attend.
at::Tensor Hidden(const std::vector<int64_t>& lengths, int half) {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  at::Tensor hidden = at::ones({tokens, tokens}, at::kBool);
  bool* const pairs = hidden.mutable_data_ptr<bool>();
  int64_t first = 0;
  for (const int64_t length : lengths) {
    const int64_t group = (length + 7) / 8 * 8 / 4;
    for (int64_t x = 0; x < length; ++x) {
      for (int64_t y = 0; y < length; ++y) {
        const int64_t query = PlaceOf(x, length, half), key = PlaceOf(y, length, half);
        if (query / group == key / group && key <= query)
          pairs[(first + x) * tokens + first + y] = false;
      }
    }
    first += length;
  }
  return hidden;
}

// Computes shifted attention from its definition. Kv heads are repeated for all query heads before
// the heads are split into halves, as in LLaMA-Factory.
Solution WrittenShifted(const Problem& given) {
  const Problem problem = InDouble(given);
  const at::Tensor q = problem.q.detach().requires_grad_(), k = problem.k.detach().requires_grad_(),
                   v = problem.v.detach().requires_grad_();
  const int64_t heads = q.size(1), group = heads / k.size(1);
  const at::Tensor keys = k.repeat_interleave(group, 1), values = v.repeat_interleave(group, 1);
  const at::Tensor hidden[] = {Hidden(problem.lengths, 0), Hidden(problem.lengths, 1)};
  std::vector<at::Tensor> outs;
  for (int64_t head = 0; head < heads; ++head) {
    at::Tensor scores =
        at::matmul(q.select(1, head), keys.select(1, head).t()).mul(problem.scale());
    if (problem.softcap > 0) scores = (scores / problem.softcap).tanh() * problem.softcap;
    scores = scores.masked_fill(hidden[head < heads / 2 ? 0 : 1], -INFINITY);
    outs.push_back(at::matmul(scores.softmax(1), values.select(1, head)));
  }
  const at::Tensor out = at::stack(outs, 1);
  const auto gradients = torch::autograd::grad({out}, {q, k, v}, {problem.dout});
  return {out.detach(), gradients[0], gradients[1], gradients[2]};
}

std::vector<Problem> ShiftedProblems(at::ScalarType type) {
  at::manual_seed(7);
  std::vector<Problem> problems;
  const auto add = [&](std::vector<int64_t> lengths, const Heads& heads, double softcap = 0.0) {
    problems.push_back(RandomProblem(std::move(lengths), heads, type, 0, softcap));
  };
  // Documents whose length is a multiple of the group size, others, and documents too short for
  // four groups.
  add({64}, {4, 2, 16});
  add({528, 40, 16, 8}, {4, 4, 8});
  add({1, 2, 63, 0, 330, 64, 65, 0, 130}, {4, 2, 16});
  add({5, 33, 7, 700}, {4, 2, 16}, 1.5);
  add({1000}, {2, 1, 8});
  // Heads for which both halves of the query heads share kv heads, or which do not split evenly.
  add({200, 9}, {6, 3, 16});
  add({333}, {9, 3, 16});
  add({72, 30}, {5, 1, 16});
  add({72, 30}, {12, 3, 8});
  add({50}, {7, 7, 8});
  add({50, 17}, {1, 1, 8});
  add({90}, {6, 2, 12, 20});  // the value dim differs from the head dim
  return problems;
}

std::shared_ptr<const comm::Layout> ShiftedLayout(const Attention& attention,
                                                  const std::vector<int64_t>& lengths) {
  return comm::Layout::Create(lengths, attention.Divide(lengths),
                              [&](int64_t document, int64_t begin, int64_t end) {
                                return ShiftedArea(lengths[document], begin, end);
                              })
      .value();
}

class ShiftedAttentionTest : public ::testing::TestWithParam<Case> {
 protected:
  void Expect(at::ScalarType type, double bound) {
    std::vector<Problem> problems = ShiftedProblems(type);
    std::vector<Solution> want;
    for (const Problem& problem : problems) want.push_back(WrittenShifted(problem));
    ConnectedRanks ranks(GetParam().ranks);
    ranks.Run([&](std::shared_ptr<comm::World> world) {
      ASSERT_OK_AND_ASSIGN(const auto attention,
                           CreateAttention({GetParam().strategy, world->communicator()}));
      for (size_t i = 0; i < problems.size(); ++i) {
        SCOPED_TRACE(Said(problems[i]));
        const auto layout = ShiftedLayout(*attention, problems[i].lengths);
        ASSERT_OK_AND_ASSIGN(const auto plan, PlanShifted(*attention, layout));
        const Solution got = Solve(*attention, *layout, *plan, world->rank(), problems[i]);
        for (int m = 0; m < 4; ++m) {
          const at::Tensor of_rank = layout->Cut(want[i].*kMembers[m], world->rank());
          // Relative to the norm of the whole result: a rank with a few rows has gradients near 0.
          const double size = (want[i].*kMembers[m]).norm().item<double>();
          EXPECT_LE((got.*kMembers[m] - of_rank).norm().item<double>(), bound * size)
              << kNames[m] << " rank " << world->rank();
        }
      }
    });
  }
};

TEST_P(ShiftedAttentionTest, EqualsWhatIsWrittenOutInFp64) { Expect(at::kDouble, 1e-12); }
TEST_P(ShiftedAttentionTest, EqualsWhatIsWrittenOutInFp32) { Expect(at::kFloat, 2e-6); }

// A second forward that reuses the kept tensors is bit-identical, because these are its results.
// Only heads are exchanged again.
TEST_P(ShiftedAttentionTest, ResumesFromWhatWasKept) {
  at::manual_seed(9);
  const std::vector<Problem> problems = {RandomProblem({330, 64}, {4, 2, 16}, at::kFloat),
                                         RandomProblem({150}, {9, 3, 16}, at::kBFloat16),
                                         RandomProblem({150}, {1, 1, 16}, at::kFloat)};
  RunRanks(GetParam().ranks, [&](std::shared_ptr<comm::World> world) {
    ASSERT_OK_AND_ASSIGN(const auto attention,
                         CreateAttention({GetParam().strategy, world->communicator()}));
    for (const Problem& problem : problems) {
      const auto layout = ShiftedLayout(*attention, problem.lengths);
      ASSERT_OK_AND_ASSIGN(const auto plan, PlanShifted(*attention, layout));
      const Solution once = Solve(*attention, *layout, *plan, world->rank(), problem);
      const Solution again = Solve(*attention, *layout, *plan, world->rank(), problem, true);
      for (int m = 0; m < 4; ++m)
        EXPECT_TRUE(BitEqual(again.*kMembers[m], once.*kMembers[m])) << kNames[m];
    }
    EXPECT_OK(world->communicator()->Barrier());
  });
}

TEST_P(ShiftedAttentionTest, StepsAndBytesAreThoseOfItsCost) {
  if (GetParam().strategy.name == "auto") return;
  std::vector<Problem> problems = ShiftedProblems(at::kFloat);
  problems.push_back(RandomProblem({1030, 3}, {4, 2}, at::kBFloat16));
  RunRanks(GetParam().ranks, [&](std::shared_ptr<comm::World> world) {
    ASSERT_OK_AND_ASSIGN(const Strategy resolved,
                         ResolveStrategy(GetParam().strategy, world->size()));
    ASSERT_OK_AND_ASSIGN(const auto attention,
                         CreateAttention({GetParam().strategy, world->communicator()}));
    for (const Problem& problem : problems) {
      SCOPED_TRACE(Said(problem));
      const auto layout = ShiftedLayout(*attention, problem.lengths);
      ASSERT_OK_AND_ASSIGN(const AttentionCost cost,
                           CostOfShifted(resolved, *layout, problem.shape()));
      const RankCost& mine = cost[world->rank()];
      ASSERT_OK_AND_ASSIGN(const auto plan, PlanShifted(*attention, layout));
      const comm::Communicator::Counters before = world->communicator()->counters();
      Solve(*attention, *layout, *plan, world->rank(), problem);
      const comm::Communicator::Counters after = world->communicator()->counters();
      EXPECT_EQ(after.bytes_sent - before.bytes_sent, mine.forward().bytes + mine.backward().bytes);
      EXPECT_EQ(after.steps - before.steps, mine.forward().steps + mine.backward().steps);
    }
    EXPECT_OK(world->communicator()->Barrier());
  });
}

INSTANTIATE_TEST_SUITE_P(All, ShiftedAttentionTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& info) { return NameOf(info.param); });

// The predicted memory is that allocated, as in memory_test.cc for attention without shift.
TEST(ShiftedCostTest, MemoryIsWhatItSays) {
  at::manual_seed(3);
  for (const auto& [name, size] :
       {std::pair("dense", 1), {"ulysses", 2}, {"zigzag-ring", 2}, {"all-gather", 2}}) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      const Problem problem = RandomProblem({4096}, {8, 4, 64}, type);
      const testing::AllocatorWatch watch;
      ConnectedRanks ranks(size);
      ranks.Run([&](std::shared_ptr<comm::World> world) {
        ASSERT_OK_AND_ASSIGN(const Strategy resolved, ResolveStrategy({.name = name}, size));
        ASSERT_OK_AND_ASSIGN(const auto attention,
                             CreateAttention({{.name = name}, world->communicator()}));
        const auto layout = ShiftedLayout(*attention, problem.lengths);
        ASSERT_OK_AND_ASSIGN(const auto plan, PlanShifted(*attention, layout));
        const auto leaf = [&](const at::Tensor& stream) {
          return layout->Cut(stream, world->rank()).clone().requires_grad_();
        };
        const at::Tensor q = leaf(problem.q), k = leaf(problem.k), v = leaf(problem.v),
                         dout = leaf(problem.dout).detach();
        const int64_t before = watch.thread_live_bytes();
        watch.ResetThreadPeak();
        const at::Tensor out = plan->Forward(q, k, v, problem.rule(), nullptr);
        const auto gradients = torch::autograd::grad({out}, {q, k, v}, {dout});
        const auto measured = static_cast<double>(watch.thread_peak_bytes() - before);
        const AttentionShape shape = problem.shape();
        ASSERT_OK_AND_ASSIGN(const AttentionCost cost, CostOfShifted(resolved, *layout, shape));
        const int64_t results = layout->local_tokens(world->rank()) *
                                (shape.heads + shape.kv_heads) * 2 * 64 * shape.element_bytes;
        const auto planned = static_cast<double>(results + cost[world->rank()].saved_bytes +
                                                 cost[world->rank()].peak_bytes);
        EXPECT_NEAR(measured / planned, 1, 0.1) << name;
      });
    }
  }
}

TEST(ShiftedDocumentsTest, AreGroupsOfAQuarterAndOneWraps) {
  EXPECT_EQ(ShiftedGroup(40), 10);
  EXPECT_EQ(ShiftedGroup(33), 10);
  EXPECT_EQ(ShiftedGroup(0), 2);
  ASSERT_OK_AND_ASSIGN(const auto plain, DocumentsOfHalf({40, 33}, 0));
  EXPECT_THAT(plain.lengths, ElementsAre(10, 10, 10, 10, 10, 10, 10, 3));
  EXPECT_EQ(plain.mask, nullptr);
  ASSERT_OK_AND_ASSIGN(const auto shifted, DocumentsOfHalf({40, 37, 3}, 1));
  EXPECT_THAT(shifted.lengths, ElementsAre(5, 10, 10, 10, 5, 5, 10, 10, 10, 2, 1, 2, 0, 0, 0));
  EXPECT_EQ(shifted.mask->family(0), 4);
  EXPECT_EQ(shifted.mask->place(0), 5);
  EXPECT_EQ(shifted.mask->family(5), 9);
  EXPECT_EQ(shifted.mask->place(5), 2);
  EXPECT_EQ(shifted.mask->family(10), 10) << "there is nothing to wrap to";
}

TEST(ShiftedDocumentsTest, AreaIsThePairsSeen) {
  for (const int64_t length : {1, 7, 8, 33, 40, 61, 64}) {
    const at::Tensor seen =
        (Hidden({length}, 0).logical_not().sum(1) + Hidden({length}, 1).logical_not().sum(1));
    for (int64_t t = 0; t < length; ++t)
      EXPECT_EQ(2 * ShiftedArea(length, t, t + 1), seen[t].item<double>()) << length << " " << t;
    EXPECT_EQ(2 * ShiftedArea(length, 0, length), seen.sum().item<double>());
  }
}

TEST(ShiftedHeadsTest, EachQueryHeadReadsItsKvHead) {
  for (const auto& [heads, kv_heads] : std::vector<std::pair<int64_t, int64_t>>{
           {8, 8}, {8, 2}, {8, 1}, {6, 3}, {9, 3}, {5, 1}, {12, 3}, {1, 1}, {28, 4}}) {
    const auto split = SplitHalves(heads, kv_heads);
    EXPECT_EQ(split[0].queries.begin, 0);
    EXPECT_EQ(split[0].queries.end, heads / 2);
    EXPECT_EQ(split[1].queries.begin, heads / 2);
    EXPECT_EQ(split[1].queries.end, heads);
    for (const ShiftedHeads& half : split) {
      const int64_t of = half.queries.heads();
      if (of == 0) continue;
      ASSERT_EQ(of % static_cast<int64_t>(half.kv.size()), 0);
      const int64_t share = of / static_cast<int64_t>(half.kv.size());
      for (int64_t h = 0; h < of; ++h)
        EXPECT_EQ(half.kv[h / share], (half.queries.begin + h) / (heads / kv_heads));
    }
  }
  EXPECT_THAT(SplitHalves(8, 2)[1].kv, ElementsAre(1)) << "nothing is repeated";
  EXPECT_THAT(SplitHalves(8, 1)[0].kv, ElementsAre(0));
  EXPECT_THAT(SplitHalves(12, 3)[0].kv, ElementsAre(0, 0, 1));
}

// Under the layout of a micro-batch, the ranks' work is balanced; masks are rejected.
TEST(ShiftedShareTest, IsBalancedAndTakesNoMask) {
  RunRanks(2, [](std::shared_ptr<comm::World> world) {
    ASSERT_OK_AND_ASSIGN(std::shared_ptr<comm::Mesh> mesh, comm::Mesh::Create(world, 2));
    ASSERT_OK_AND_ASSIGN(auto attention,
                         CreateAttention({{.name = "zigzag-ring"}, mesh->sp_group()}));
    const std::vector<int64_t> lengths = {4096, 100, 3000};
    const at::Tensor ids_T = at::arange(7196, at::kLong);
    const comm::Sequence stream{lengths, ids_T, comm::PositionsInDocuments(lengths),
                                comm::ShiftLabels(ids_T, lengths)};
    ASSERT_OK_AND_ASSIGN(const MicroBatchShare share,
                         CutMicroBatch(*attention, *mesh, stream, {}, /*shifted=*/true));
    std::vector<double> area(2, 0.0);
    for (int place = 0; place < 2; ++place) {
      for (const comm::Span& span : share.layout->context_spans(place))
        area[place] += ShiftedArea(lengths[span.document], span.begin, span.end);
    }
    EXPECT_NEAR(area[0] / area[1], 1.0, 0.03);
    ASSERT_OK_AND_ASSIGN(const auto mask, Mask::Create(lengths, {}));
    EXPECT_THAT(CutMicroBatch(*attention, *mesh, stream, {mask}, /*shifted=*/true).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("takes no masks")));
    const at::Tensor rows = at::zeros({share.layout->local_tokens(mesh->sp_rank()), 2, 8});
    ScoreRule rule;
    rule.window = 5;
    EXPECT_THROW(share.plan->Forward(rows, rows, rows, rule, nullptr), c10::Error);
  });
}

}  // namespace
}  // namespace moonring::attention
