// The mesh, and the differentiable collectives on its groups.
#include "comm/mesh.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "base/status/torch_status.h"
#include "comm/autograd_collectives.h"
#include "tests/testing/all_close.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::comm {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;
using ::moonring::testing::RunRanks;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

TEST(MeshTest, SpIsTheFastestAxis) {
  for (const auto& [size, sp] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {2, 2}, {6, 1}, {6, 2}, {6, 3}, {6, 6}}) {
    RunRanks(size, [sp = sp](std::shared_ptr<World> world) {
      ASSERT_OK_AND_ASSIGN(std::shared_ptr<Mesh> mesh, Mesh::Create(world, sp));
      EXPECT_EQ(mesh->sp_size(), sp);
      EXPECT_EQ(mesh->dp_size(), world->size() / sp);
      EXPECT_EQ(mesh->dp_rank() * sp + mesh->sp_rank(), world->rank());
      // The sum of the world ranks in a group identifies its members.
      at::Tensor over_sp = at::full({1}, world->rank(), at::kLong), over_dp = over_sp.clone(),
                 over_world = over_sp.clone();
      ASSERT_OK(mesh->sp().AllReduceSum(over_sp));
      ASSERT_OK(mesh->dp().AllReduceSum(over_dp));
      ASSERT_OK(mesh->world().AllReduceSum(over_world));
      const int64_t dp = mesh->dp_size();
      EXPECT_EQ(over_sp.item<int64_t>(), sp * sp * mesh->dp_rank() + sp * (sp - 1) / 2);
      EXPECT_EQ(over_dp.item<int64_t>(), dp * mesh->sp_rank() + sp * dp * (dp - 1) / 2);
      EXPECT_EQ(over_world.item<int64_t>(), world->size() * (world->size() - 1) / 2);
    });
  }
}

TEST(MeshTest, RefusesAnSpThatDoesNotDivide) {
  RunRanks(4, [](std::shared_ptr<World> world) {
    EXPECT_THAT(Mesh::Create(world, 3),
                StatusIs(absl::StatusCode::kInvalidArgument, "sp=3 does not divide world size 4"));
    EXPECT_THAT(Mesh::Create(world, 0),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sp=0")));
    EXPECT_THAT(Mesh::Create(world, 8),
                StatusIs(absl::StatusCode::kInvalidArgument, "sp=8 does not divide world size 4"));
  });
}

TEST(MeshTest, LayoutsAreOfItsSpGroup) {
  RunRanks(4, [](std::shared_ptr<World> world) {
    ASSERT_OK_AND_ASSIGN(std::shared_ptr<Mesh> mesh, Mesh::Create(world, 2));
    ASSERT_OK_AND_ASSIGN(auto layout,
                         mesh->MakeLayout({300, 7, 900}, {mesh->sp_size(), Ownership::kZigzag}));
    EXPECT_EQ(layout->ranks(), 2);
    // The parts that the ranks of the group have cut, gathered, are the whole stream.
    const at::Tensor stream = at::arange(1207, at::kLong);
    ASSERT_OK_AND_ASSIGN(std::vector<at::Tensor> parts,
                         mesh->sp().AllGather(layout->Cut(stream, mesh->sp_rank()),
                                              {layout->local_tokens(0), layout->local_tokens(1)}));
    EXPECT_TRUE(BitEqual(layout->Join(parts), stream));
  });
}

TEST(WorldTest, SplitRefusesInvalidGroups) {
  RunRanks(3, [](std::shared_ptr<World> world) {
    EXPECT_THAT(world->Split({0, 3}, "x"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 3 in a world of 3")));
    EXPECT_THAT(world->Split({1, 1}, "x"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 1 twice")));
    // Groups may order their ranks differently from the world.
    ASSERT_OK_AND_ASSIGN(auto backwards, world->Split({2, 0}, "backwards"));
    EXPECT_EQ(backwards == nullptr, world->rank() == 1);
    if (backwards != nullptr) {
      EXPECT_EQ(backwards->rank(), world->rank() == 2 ? 0 : 1);
    }
  });
}

// The number of rows that rank `from` sends to rank `to`: uneven, sometimes 0.
int64_t RowsFromTo(int from, int to) { return (from + 2 * to) % 3 == 0 ? 0 : from + to + 1; }

// The weights of these rows in the loss; all weights differ.
at::Tensor WeightsOf(int from, int to, int64_t rows) {
  return (at::arange(rows * 2, at::kDouble).view({rows, 2}) + 10 * from + 100 * to + 1) / 7;
}

TEST(AutogradCollectivesTest, AllToAllRowsSendsGradientsBack) {
  // The loss of rank b is the sum of w x^2 over the received rows, so dloss/dx = 2 w x, where w is
  // the weight at the row's new position.
  for (const int size : {1, 2, 3, 4}) {
    RunRanks(size, [size](std::shared_ptr<World> world) {
      const auto comm = world->communicator();
      const int rank = comm->rank();
      std::vector<int64_t> send, receive;
      std::vector<at::Tensor> weights_sent, weights_received;
      for (int r = 0; r < size; ++r) {
        send.push_back(RowsFromTo(rank, r));
        receive.push_back(RowsFromTo(r, rank));
        weights_sent.push_back(WeightsOf(rank, r, send.back()));
        weights_received.push_back(WeightsOf(r, rank, receive.back()));
      }
      const at::Tensor w = at::cat(weights_sent);
      at::Tensor x = (at::arange(w.numel(), at::kDouble).view_as(w) + rank).sin().requires_grad_();
      const at::Tensor received = AllToAllRows(x, send, receive, comm);
      // The tensor may be non-contiguous, and the graph may contain two nodes of the same kind.
      const at::Tensor back =
          AllToAllRows((received * received * at::cat(weights_received)).t().contiguous().t(),
                       receive, send, comm);
      EXPECT_TRUE(RelativeError(back, w * x * x, 1e-15));
      back.sum().backward();
      EXPECT_TRUE(RelativeError(x.grad(), 2 * w * x, 1e-15));
    });
  }
}

TEST(AutogradCollectivesTest, AllReduceSumHasTheGradientOfOneLoss) {
  // Rank r has x_r, and s = sum_r x_r. Every rank evaluates the same f(s) = sum(logsigmoid(s)), so
  // df/dx_r = 1 - sigmoid(s).
  for (const int size : {1, 2, 4}) {
    RunRanks(size, [size](std::shared_ptr<World> world) {
      const auto comm = world->communicator();
      const auto value = [](int r) { return at::arange(5, at::kDouble) * 0.3 - r; };
      at::Tensor x = value(comm->rank()).requires_grad_();
      at::Tensor s = at::zeros({5}, at::kDouble);
      for (int r = 0; r < size; ++r) s += value(r);
      const int64_t before = comm->counters().steps;
      const at::Tensor sum = AllReduceSumIdentityBackward(x, comm);
      EXPECT_TRUE(RelativeError(sum, s, 1e-15));
      const int64_t forward = comm->counters().steps;
      at::log_sigmoid(sum).sum().backward();
      EXPECT_TRUE(RelativeError(x.grad(), 1 - s.sigmoid(), 1e-15));
      EXPECT_EQ(forward - before, 2 * (size - 1));
      EXPECT_EQ(comm->counters().steps, forward);  // the identity sends nothing
      EXPECT_TRUE(BitEqual(x.detach(), value(comm->rank())));
    });
  }
}

TEST(AutogradCollectivesTest, AFailureThrowsItsStatus) {
  RunRanks(2, [](std::shared_ptr<World> world) {
    const auto comm = world->communicator();
    world->Close();
    const at::Tensor x = at::ones({2}, at::kDouble).requires_grad_();
    try {
      AllToAllRows(x, {1, 1}, {1, 1}, comm);
      FAIL() << "did not throw";
    } catch (const base::StatusError& error) {
      EXPECT_EQ(error.status().code(), absl::StatusCode::kFailedPrecondition);
    }
    EXPECT_THROW(AllReduceSumIdentityBackward(x, comm), base::StatusError);
  });
}

}  // namespace
}  // namespace moonring::comm
