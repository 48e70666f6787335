// Gradients of the differentiable collectives equal finite differences of the whole loss, on one,
// two and four ranks with different numbers of rows; one rank has none.
#include "comm/autograd_collectives.h"

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::comm {
namespace {

using ::moonring::testing::RunRanks;

using Group = std::shared_ptr<Communicator>;
using RowCounts = std::vector<int64_t>;

constexpr int64_t kRowsOfRank[] = {3, 0, 2, 5};

struct CollectiveLoss {
  std::string name;
  std::function<at::Tensor(const at::Tensor& x, const Group& group)> of;
  bool replicated = false;  // the loss is equal on every rank, and counts once
};

RowCounts RowsOfRanks(const Group& group) { return {kRowsOfRank, kRowsOfRank + group->size()}; }

// Different numbers on each rank.
at::Tensor Numbers(at::IntArrayRef shape, const Group& group) {
  return (at::arange(c10::multiply_integers(shape), at::kDouble).view(shape) * 0.7 + group->rank())
      .sin();
}

at::Tensor SumThenSpread(const at::Tensor& x, const Group& group) {
  const at::Tensor sum = AllReduceSumIdentityBackward(x.exp().sum(0), group);
  const at::Tensor back = Spread((sum * 0.1).sigmoid(), group);
  return (x.sin() * back).sum() + (back * Numbers({2}, group)).sum();
}

std::vector<CollectiveLoss> CollectiveLosses() {
  return {
      {"a sum and its dual", &SumThenSpread},
      {"a sum of what the dual gives",
       [](const at::Tensor& x, const Group& group) {
         return AllReduceSumIdentityBackward(SumThenSpread(x, group), group).square();
       },
       /*replicated=*/true},
      {"gather",
       [](const at::Tensor& x, const Group& group) {
         const at::Tensor whole = GatherRows(x.sin(), RowsOfRanks(group), group);
         return (whole * Numbers(whole.sizes(), group) + whole.flip(0)).tanh().sum();
       }},
      {"reduce-scatter",
       [](const at::Tensor& x, const Group& group) {
         const RowCounts counts = RowsOfRanks(group);
         const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
         const at::Tensor stream = Numbers({total, 2}, group) * x.exp().sum(0);
         const at::Tensor mine = ReduceScatterRows(stream, counts, group);
         return (mine.square() * Numbers(mine.sizes(), group)).sum();
       }},
      {"all-to-all",
       [](const at::Tensor& x, const Group& group) {
         const int64_t ranks = group->size();
         RowCounts send, receive;  // n rows as evenly as possible over the ranks
         for (int64_t peer = 0; peer < ranks; ++peer) {
           send.push_back((kRowsOfRank[group->rank()] + peer) / ranks);
           receive.push_back((kRowsOfRank[peer] + group->rank()) / ranks);
         }
         const at::Tensor received = AllToAllRows(x.sin(), send, receive, group);
         return (received * Numbers(received.sizes(), group)).exp().sum();
       }},
  };
}

// The loss of all ranks together; the same on every rank.
double WholeLoss(const CollectiveLoss& loss, const at::Tensor& x, const Group& group) {
  at::NoGradGuard no_grad;
  const bool counts = !loss.replicated || group->rank() == 0;
  at::Tensor sum = loss.of(x, group).reshape({1}) * (counts ? 1.0 : 0.0);
  EXPECT_OK(group->AllReduceSum(sum));
  return sum.item<double>();
}

TEST(CollectiveGradientsTest, EqualFiniteDifferences) {
  constexpr double kStep = 1e-5;
  for (const int size : {1, 2, 4}) {
    RunRanks(size, [](std::shared_ptr<World> world) {
      const Group group = world->communicator();
      for (const CollectiveLoss& loss : CollectiveLosses()) {
        SCOPED_TRACE(loss.name);
        const at::Tensor x = Numbers({kRowsOfRank[group->rank()], 2}, group);
        at::Tensor leaf = x.clone().requires_grad_();
        loss.of(leaf, group).backward();
        ASSERT_TRUE(leaf.grad().defined());
        for (int rank = 0; rank < group->size(); ++rank) {
          for (int64_t i = 0; i < 2 * kRowsOfRank[rank]; ++i) {
            const auto moved = [&](double by) {
              at::Tensor there = x.clone();
              if (rank == group->rank()) there.view({-1})[i] += by;
              return WholeLoss(loss, there, group);
            };
            const double expected = (moved(kStep) - moved(-kStep)) / (2 * kStep);
            if (rank != group->rank()) continue;
            // Rounding of the loss over the step, and the step's square.
            EXPECT_NEAR(leaf.grad().reshape({-1})[i].item<double>(), expected, 2e-8)
                << "rank " << rank << ", element " << i;
          }
        }
      }
    });
  }
}

TEST(CollectiveGradientsTest, AWrongNumberOfRowsIsRefused) {
  const Group alone = Communicator::Alone();
  const at::Tensor rows = at::zeros({3, 2});
  EXPECT_THROW(GatherRows(rows, {2}, alone), c10::ValueError);
  EXPECT_THROW(GatherRows(rows, {}, alone), c10::ValueError);
  EXPECT_THROW(ReduceScatterRows(rows, {2}, alone), c10::ValueError);
  EXPECT_THROW(ReduceScatterRows(rows, {1, 2}, alone), c10::ValueError);
}

}  // namespace
}  // namespace moonring::comm
