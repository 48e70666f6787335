// Collectives of comm/communicator.h that copy GPU tensors through host memory: each operation,
// over two ranks (which are threads) of one GPU, with each kind of tensor, receives what was sent.

#include <functional>
#include <memory>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "comm/communicator.h"
#include "comm/process_groups.h"
#include "tests/testing/all_close.h"
#include "tests/testing/pretend_device/device.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::comm {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RunRanks;
using Message = Communicator::Message;

const c10::Device kGpu(c10::kCUDA, 0);
constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong};

// Returns one rank's rows [rows, 3] of small integers, which are exact in every dtype.
at::Tensor SmallRows(int rank, int64_t rows, at::ScalarType dtype) {
  return ((at::arange(rows * 3, at::kLong) * 5 + rank) % 7).to(dtype).view({rows, 3});
}

at::Tensor There(const at::Tensor& tensor) { return tensor.to(kGpu); }

// Returns the same values in a tensor whose rows are not contiguous.
at::Tensor Strided(const at::Tensor& tensor) {
  at::Tensor wide = at::zeros({tensor.size(0), 6}, tensor.options());
  wide.narrow(1, 2, 3).copy_(tensor);
  return wide.narrow(1, 2, 3);
}

void OverDtypesAndRows(const std::function<void(Communicator&, at::ScalarType, int64_t)>& body) {
  RunRanks(2, [&](std::shared_ptr<World> world) {
    for (const at::ScalarType dtype : kDtypes) {
      for (const int64_t rows : {0, 1, 100}) body(*world->communicator(), dtype, rows);
    }
  });
}

TEST(StagedExchange, AllReduce) {
  OverDtypesAndRows([](Communicator& comm, at::ScalarType dtype, int64_t rows) {
    at::Tensor sum = There(SmallRows(comm.rank(), rows, dtype)), strided = Strided(sum),
               max = sum.clone();
    const at::Tensor both = SmallRows(0, rows, dtype) + SmallRows(1, rows, dtype);
    ASSERT_OK(comm.AllReduceSum(sum));
    ASSERT_OK(comm.AllReduceSum(strided));
    ASSERT_OK(comm.AllReduceMax(max));
    EXPECT_TRUE(BitEqual(sum.cpu(), both));
    EXPECT_TRUE(BitEqual(strided.cpu(), both));
    EXPECT_TRUE(BitEqual(max.cpu(), SmallRows(0, rows, dtype).maximum(SmallRows(1, rows, dtype))));
  });
}

TEST(StagedExchange, Broadcast) {
  OverDtypesAndRows([](Communicator& comm, at::ScalarType dtype, int64_t rows) {
    at::Tensor whole = There(SmallRows(comm.rank(), rows, dtype)), strided = Strided(whole);
    ASSERT_OK(comm.Broadcast(whole, 1));
    ASSERT_OK(comm.Broadcast(strided, 0));
    EXPECT_TRUE(BitEqual(whole.cpu(), SmallRows(1, rows, dtype)));
    EXPECT_TRUE(BitEqual(strided.cpu(), SmallRows(0, rows, dtype)));
  });
}

TEST(StagedExchange, AllToAllOfUnevenRows) {
  OverDtypesAndRows([](Communicator& comm, at::ScalarType dtype, int64_t rows) {
    const int mine = comm.rank(), other = 1 - mine;
    // Rank r sends r + 1 more rows to itself than to the other rank.
    const auto to_self = [&](int r) { return rows + r + 1; };
    std::vector<int64_t> send(2), receive(2);
    send[mine] = receive[mine] = to_self(mine);
    send[other] = receive[other] = rows;
    const at::Tensor given = SmallRows(mine, send[0] + send[1], dtype);
    const auto received = comm.AllToAll(Strided(There(given)), send, receive);
    ASSERT_OK(received);
    const at::Tensor theirs = SmallRows(other, rows + to_self(other), dtype);
    const auto part = [](const at::Tensor& all, int to, int64_t first, int64_t second) {
      return to == 0 ? all.narrow(0, 0, first) : all.narrow(0, first, second);
    };
    EXPECT_TRUE(BitEqual(part(received->cpu(), mine, receive[0], receive[1]),
                         part(given, mine, send[0], send[1])));
    EXPECT_TRUE(
        BitEqual(part(received->cpu(), other, receive[0], receive[1]),
                 mine == 0 ? theirs.narrow(0, 0, rows) : theirs.narrow(0, to_self(0), rows)));
  });
}

TEST(StagedExchange, AllGather) {
  OverDtypesAndRows([](Communicator& comm, at::ScalarType dtype, int64_t rows) {
    const auto parts =
        comm.AllGather(There(SmallRows(comm.rank(), rows + comm.rank(), dtype)), {rows, rows + 1});
    ASSERT_OK(parts);
    for (int r = 0; r < 2; ++r)
      EXPECT_TRUE(BitEqual((*parts)[r].cpu(), SmallRows(r, rows + r, dtype)));
  });
}

TEST(StagedExchange, ReduceScatter) {
  OverDtypesAndRows([](Communicator& comm, at::ScalarType dtype, int64_t rows) {
    const auto part =
        comm.ReduceScatterSum(There(SmallRows(comm.rank(), 2 * rows + 1, dtype)), {rows, rows + 1});
    ASSERT_OK(part);
    const at::Tensor both = SmallRows(0, 2 * rows + 1, dtype) + SmallRows(1, 2 * rows + 1, dtype);
    EXPECT_TRUE(BitEqual(part->cpu(), both.narrow(0, comm.rank() * rows, rows + comm.rank())));
  });
}

// The sent tensor is still being computed when the exchange is called, and the received one is used
// immediately.
TEST(StagedExchange, ExchangeInTheMidstOfWork) {
  OverDtypesAndRows([](Communicator& comm, at::ScalarType dtype, int64_t rows) {
    const int mine = comm.rank(), other = 1 - mine;
    const at::Tensor given = Strided(There(SmallRows(mine, rows, dtype)));
    const at::Tensor come = at::empty({rows, 3}, given.options()), sum = given + given;
    auto transfer =
        comm.Exchange({{sum, other}, {given, other}, {given, mine}},
                      {{come, other}, {at::empty_like(come), other}, {at::empty_like(come), mine}});
    ASSERT_OK(transfer);
    ASSERT_OK(transfer->Wait());
    const at::Tensor want = SmallRows(other, rows, dtype);
    EXPECT_TRUE(BitEqual((come + 1).cpu(), want + want + 1));
  });
}

}  // namespace
}  // namespace moonring::comm
