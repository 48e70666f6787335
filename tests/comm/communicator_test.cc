#include "comm/communicator.h"

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "absl/time/clock.h"
#include "comm/process_groups.h"
#include "tests/testing/all_close.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::comm {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RunRanks;
using ::moonring::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSizes[] = {1, 2, 3, 5, 8};
constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf,
                                      at::kLong,  at::kInt,    at::kByte};

// Returns small integers that depend on the rank and are exact in every dtype used in this file.
at::Tensor Mine(int rank, int64_t numel, at::ScalarType dtype) {
  return ((at::arange(numel, at::kLong) * 3 + rank) % 7).to(dtype);
}

TEST(CommunicatorTest, AllReduceOfEachDtypeAndSize) {
  for (const int size : kSizes) {
    RunRanks(size, [&](std::shared_ptr<World> world) {
      Communicator& comm = *world->communicator();
      for (const at::ScalarType dtype : kDtypes) {
        for (const int64_t numel : {0, 1, 3, 100, 1000, 10001}) {
          at::Tensor sum = Mine(comm.rank(), numel, dtype), max = sum.clone();
          at::Tensor want_sum = Mine(0, numel, dtype), want_max = want_sum.clone();
          for (int r = 1; r < size; ++r) {
            want_sum += Mine(r, numel, dtype);
            want_max = want_max.maximum(Mine(r, numel, dtype));
          }
          ASSERT_OK(comm.AllReduceSum(sum));
          ASSERT_OK(comm.AllReduceMax(max));
          ASSERT_TRUE(BitEqual(sum, want_sum)) << dtype << " " << numel;
          ASSERT_TRUE(BitEqual(max, want_max)) << dtype << " " << numel;
        }
      }
    });
  }
}

// In this process, only the event loop threads of Gloo have the batch scheduling policy
// (batch_threads.h), so they do not take cores from other threads.
TEST(CommunicatorTest, EachRankHasALoopThreadThatTakesNoCoreFromOthers) {
  if (sched_getscheduler(0) != SCHED_OTHER) GTEST_SKIP() << "this process is not SCHED_OTHER";
  constexpr int kRanks = 3;
  std::atomic<int> batch = 0;
  RunRanks(kRanks, [&](std::shared_ptr<World> world) {
    ASSERT_OK(world->communicator()->Barrier());
    if (world->communicator()->rank() == 0) {
      for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
        batch += sched_getscheduler(std::stoi(thread.path().filename())) == SCHED_BATCH;
      }
    }
    ASSERT_OK(world->communicator()->Barrier());
  });
  EXPECT_EQ(batch, kRanks);
}

TEST(CommunicatorTest, SumsAreBitEqualOnAllRanks) {
  RunRanks(3, [&](std::shared_ptr<World> world) {
    Communicator& comm = *world->communicator();
    at::Tensor t = (at::arange(1000, at::kFloat) * (0.1 + comm.rank())).sin();
    ASSERT_OK(comm.AllReduceSum(t));
    auto all = comm.AllGather(t, std::vector<int64_t>(3, 1000));
    ASSERT_OK(all);
    for (const at::Tensor& other : *all) EXPECT_TRUE(BitEqual(other, t));
  });
}

// Several sums are pending at the same time and are waited for in another order, in groups of one
// and of more ranks. The counters equal those of sums that are waited for immediately.
TEST(CommunicatorTest, SumsUnderWay) {
  for (const int size : kSizes) {
    RunRanks(size, [&](std::shared_ptr<World> world) {
      Communicator& comm = *world->communicator();
      at::Tensor first = Mine(comm.rank(), 1000, at::kFloat), second = first.to(at::kDouble) * 2,
                 wanted = first.clone(), nothing = at::empty({0});
      ASSERT_OK(comm.AllReduceSum(wanted));
      const Communicator::Counters before = comm.counters();
      auto one = comm.StartAllReduceSum(first), two = comm.StartAllReduceSum(second),
           three = comm.StartAllReduceSum(nothing);
      ASSERT_OK(one);
      ASSERT_OK(two);
      ASSERT_OK(three);
      ASSERT_OK(two->Wait());
      ASSERT_OK(one->Wait());
      ASSERT_OK(three->Wait());
      EXPECT_TRUE(BitEqual(first, wanted));
      EXPECT_TRUE(BitEqual(second, wanted.to(at::kDouble) * 2));
      EXPECT_EQ(comm.counters().steps - before.steps, 2 * 2 * (size - 1));
      EXPECT_EQ(comm.counters().bytes_sent - before.bytes_sent,
                2 * (size - 1) * 4000 / size + 2 * (size - 1) * 8000 / size);
      at::Tensor strided = at::zeros({4, 4}).t();
      EXPECT_ANY_THROW(comm.StartAllReduceSum(strided).IgnoreError());
    });
  }
}

TEST(CommunicatorTest, StridedTensorsAreReducedInPlace) {
  RunRanks(2, [&](std::shared_ptr<World> world) {
    Communicator& comm = *world->communicator();
    const at::Tensor whole = at::ones({4, 6});
    at::Tensor column = whole.slice(1, 2, 3);
    ASSERT_OK(comm.AllReduceSum(column));
    EXPECT_EQ(whole.sum().item<float>(), 24 + 4);
    at::Tensor other = comm.rank() == 1 ? at::full({3, 2}, 5.0).t() : at::zeros({2, 3}, at::kFloat);
    other = other.to(at::kFloat);
    ASSERT_OK(comm.Broadcast(other, 1));
    EXPECT_TRUE(other.eq(5).all().item<bool>());
  });
}

TEST(CommunicatorTest, BroadcastFromEachRoot) {
  for (const int size : kSizes) {
    RunRanks(size, [&](std::shared_ptr<World> world) {
      Communicator& comm = *world->communicator();
      for (int root = 0; root < size; ++root) {
        at::Tensor t = Mine(comm.rank() + root, 50, at::kBFloat16);
        ASSERT_OK(comm.Broadcast(t, root));
        ASSERT_TRUE(BitEqual(t, Mine(2 * root, 50, at::kBFloat16)));
      }
      // A binomial tree sends P-1 times in total.
      at::Tensor sent = at::full({1}, comm.counters().bytes_sent, at::kLong);
      ASSERT_OK(comm.AllReduceSum(sent));
      EXPECT_EQ(sent.item<int64_t>(), size * (size - 1) * 100);
    });
  }
}

// The numbers of rows of the ranks in a reduce-scatter: uneven, some 0.
std::vector<int64_t> UnevenRows(int size, int round) {
  std::vector<int64_t> rows;
  for (int r = 0; r < size; ++r)
    rows.push_back((r + round) % 3 == 0 ? 0 : (r * 7 + round * 5) % 11);
  return rows;
}

TEST(CommunicatorTest, ReduceScatterOfUnevenRows) {
  for (const int size : kSizes) {
    RunRanks(size, [&](std::shared_ptr<World> world) {
      Communicator& comm = *world->communicator();
      for (const at::ScalarType dtype : kDtypes) {
        for (int round = 0; round < 4; ++round) {
          const std::vector<int64_t> rows = UnevenRows(size, round);
          const int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0}),
                        before =
                            std::accumulate(rows.begin(), rows.begin() + comm.rank(), int64_t{0});
          const at::Tensor mine = Mine(comm.rank(), 3 * all, dtype).view({all, 3}),
                           untouched = mine.clone();
          at::Tensor want = at::zeros({all, 3}, dtype);
          for (int r = 0; r < size; ++r) want += Mine(r, 3 * all, dtype).view({all, 3});
          const Communicator::Counters counted = comm.counters();
          auto sum = comm.ReduceScatterSum(mine, rows);
          ASSERT_OK(sum);
          ASSERT_TRUE(BitEqual(*sum, want.narrow(0, before, rows[comm.rank()])))
              << dtype << " " << round;
          ASSERT_TRUE(BitEqual(mine, untouched));
          const int64_t row_bytes = 3 * static_cast<int64_t>(c10::elementSize(dtype));
          EXPECT_EQ(comm.counters().bytes_sent - counted.bytes_sent,
                    size == 1 ? 0 : (all - rows[comm.rank()]) * row_bytes);
        }
      }
      EXPECT_THROW(
          comm.ReduceScatterSum(at::ones({size + 1}), std::vector<int64_t>(size, 1)).IgnoreError(),
          c10::Error);
    });
  }
}

// Several all-gathers, of the whole tensor and of each rank's contribution, are pending while
// something else is sent.
TEST(CommunicatorTest, AllGathersUnderWay) {
  for (const int size : kSizes) {
    RunRanks(size, [&](std::shared_ptr<World> world) {
      Communicator& comm = *world->communicator();
      std::vector<at::Tensor> wholes, wanted;
      std::vector<Communicator::Transfer> transfers;
      const Communicator::Counters counted = comm.counters();
      int64_t bytes = 0;
      for (int round = 0; round < 4; ++round) {
        const std::vector<int64_t> rows = UnevenRows(size, round);
        const int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0}),
                      before =
                          std::accumulate(rows.begin(), rows.begin() + comm.rank(), int64_t{0});
        wanted.push_back(at::arange(all) + 100 * round);
        wholes.push_back(at::full({all}, -1, at::kLong));
        wholes.back()
            .narrow(0, before, rows[comm.rank()])
            .copy_(wanted.back().narrow(0, before, rows[comm.rank()]));
        auto transfer = comm.StartAllGather({{wholes.back(), rows}});
        ASSERT_OK(transfer);
        transfers.push_back(*std::move(transfer));
        bytes += 8 * (size - 1) * rows[comm.rank()];
      }
      EXPECT_EQ(comm.counters().bytes_sent - counted.bytes_sent, bytes);
      at::Tensor sum = at::ones({5});
      ASSERT_OK(comm.AllReduceSum(sum));
      for (int round = 3; round >= 0; --round) {
        ASSERT_OK(transfers[round].Wait());
        EXPECT_TRUE(BitEqual(wholes[round], wanted[round]));
      }
    });
  }
}

// The number of rows that rank `from` sends to rank `to`: uneven, sometimes 0.
int64_t RowsBetween(int from, int to, int round) {
  return (from * 5 + to * 3 + round) % 4 == 0 ? 0 : (from * 7 + to * 11 + round) % 6;
}

TEST(CommunicatorTest, AllToAllOfUnevenRows) {
  for (const int size : kSizes) {
    RunRanks(size, [&](std::shared_ptr<World> world) {
      Communicator& comm = *world->communicator();
      for (const at::ScalarType dtype : kDtypes) {
        for (int round = 0; round < 4; ++round) {
          std::vector<int64_t> send(size), receive(size);
          std::vector<at::Tensor> sent, want;
          // Row i from a to b contains (a, b, i) in its three columns.
          const auto rows = [&](int from, int to, int64_t count) {
            at::Tensor t = at::zeros({count, 3}, at::kLong);
            t.select(1, 0).fill_(from), t.select(1, 1).fill_(to),
                t.select(1, 2).copy_(at::arange(count, at::kLong));
            return t.to(dtype);
          };
          for (int r = 0; r < size; ++r) {
            sent.push_back(rows(comm.rank(), r, send[r] = RowsBetween(comm.rank(), r, round)));
            want.push_back(rows(r, comm.rank(), receive[r] = RowsBetween(r, comm.rank(), round)));
          }
          auto got = comm.AllToAll(at::cat(sent), send, receive);
          ASSERT_OK(got);
          ASSERT_TRUE(BitEqual(*got, at::cat(want))) << dtype << " round " << round;
        }
      }
      // No rank sends anything; then one rank sends everything to the last.
      const std::vector<int64_t> none(size, 0);
      auto nothing = comm.AllToAll(at::empty({0, 4}), none, none);
      ASSERT_OK(nothing);
      EXPECT_EQ(nothing->sizes(), (at::IntArrayRef{0, 4}));
      std::vector<int64_t> send(size, 0), receive(size, 0);
      if (comm.rank() == 0) send.back() = 1000;
      if (comm.rank() == size - 1) receive.front() = 1000;
      auto funnel = comm.AllToAll(at::ones({comm.rank() == 0 ? 1000 : 0, 2}), send, receive);
      ASSERT_OK(funnel);
      EXPECT_EQ(funnel->sum().item<float>(), comm.rank() == size - 1 ? 2000 : 0);
    });
  }
}

TEST(CommunicatorTest, AllGatherOfUnevenRows) {
  for (const int size : kSizes) {
    RunRanks(size, [&](std::shared_ptr<World> world) {
      Communicator& comm = *world->communicator();
      std::vector<int64_t> rows(size);
      for (int r = 0; r < size; ++r) rows[r] = (r * 5) % 4;
      auto all = comm.AllGather(at::full({rows[comm.rank()], 2}, comm.rank(), at::kDouble), rows);
      ASSERT_OK(all);
      for (int r = 0; r < size; ++r)
        EXPECT_TRUE(BitEqual((*all)[r], at::full({rows[r], 2}, r, at::kDouble)));
      EXPECT_EQ(comm.counters().bytes_sent, (size - 1) * rows[comm.rank()] * 16);
    });
  }
}

TEST(CommunicatorTest, ExchangeGoesRoundARing) {
  for (const int size : kSizes) {
    RunRanks(size, [&](std::shared_ptr<World> world) {
      Communicator& comm = *world->communicator();
      const int next = (comm.rank() + 1) % size, before = (comm.rank() + size - 1) % size;
      // Sizes differ between ranks; the second of three tensors is empty on all ranks.
      const auto key = [](int r) { return Mine(r, 1000 + r, at::kFloat); };
      const auto value = [](int r) { return Mine(r + 1, 500 + 2 * r, at::kBFloat16); };
      at::Tensor k = at::empty({1000 + before}), v = at::empty({500 + 2 * before}, at::kBFloat16),
                 none = at::empty({0});
      auto transfer = comm.Exchange(
          {{key(comm.rank()), next}, {at::empty({0}), next}, {value(comm.rank()), next}},
          {{k, before}, {none, before}, {v, before}});
      ASSERT_OK(transfer);
      ASSERT_OK(transfer->Wait());
      ASSERT_OK(transfer->Wait());  // the second wait returns immediately
      EXPECT_TRUE(BitEqual(k, key(before)));
      EXPECT_TRUE(BitEqual(v, value(before)));
    });
  }
}

// An empty exchange starts no communication and must not be waited for: on a GPU an empty batch has
// no Work object.
TEST(CommunicatorTest, ExchangeOfNothingIsOverAtOnce) {
  RunRanks(2, [&](std::shared_ptr<World> world) {
    Communicator& comm = *world->communicator();
    const int other = 1 - comm.rank();
    at::Tensor none = at::empty({0, 3});
    auto transfer = comm.Exchange({{at::empty({0, 3}), other}}, {{none, other}});
    ASSERT_OK(transfer);
    EXPECT_OK(transfer->Wait());
    EXPECT_EQ(comm.counters().steps, 0);
    at::Tensor all = at::ones({1});
    EXPECT_OK(comm.AllReduceSum(all));  // the group still works
    EXPECT_EQ(all.item<float>(), 2.0F);
  });
}

TEST(CommunicatorTest, ExchangeWithManyAtOnceAndWithItself) {
  for (const int size : kSizes) {
    RunRanks(size, [&](std::shared_ptr<World> world) {
      Communicator& comm = *world->communicator();
      // Rank a sends rank b, or itself, two tensors; the second has b rows: none for rank 0.
      std::vector<Communicator::Message> send, receive;
      for (int r = size - 1; r >= 0; --r) {
        send.push_back({at::full({3}, 10 * comm.rank() + r, at::kFloat), r});
        send.push_back({at::full({r, 2}, -10 * comm.rank() - r, at::kFloat), r});
      }
      for (int r = 0; r < size; ++r) {
        receive.push_back({at::zeros({3}), r});
        receive.push_back({at::zeros({comm.rank(), 2}), r});
      }
      auto transfer = comm.Exchange(send, receive);
      ASSERT_OK(transfer);
      ASSERT_OK(transfer->Wait());
      for (int r = 0; r < size; ++r) {
        EXPECT_TRUE(receive[2 * r].tensor.eq(10 * r + comm.rank()).all().item<bool>());
        EXPECT_TRUE(receive[2 * r + 1].tensor.eq(-10 * r - comm.rank()).all().item<bool>());
      }
      EXPECT_EQ(comm.counters().steps, size - 1);
      int64_t bytes = 0;
      for (int r = 0; r < size; ++r) bytes += r == comm.rank() ? 0 : 4 * (3 + 2 * r);
      EXPECT_EQ(comm.counters().bytes_sent, bytes);
    });
  }
}

TEST(CommunicatorTest, LargeTransfersAtOnceDoNotBlockEachOther) {
  RunRanks(3, [&](std::shared_ptr<World> world) {
    Communicator& comm = *world->communicator();
    const int next = (comm.rank() + 1) % 3, before = (comm.rank() + 2) % 3;
    constexpr int64_t kNumel = 4 << 20;  // 16 MiB: more than a socket buffers
    at::Tensor forth = at::empty({kNumel}), back = at::empty({kNumel});
    auto a =
        comm.Exchange({{at::full({kNumel}, comm.rank(), at::kFloat), next}}, {{forth, before}});
    auto b =
        comm.Exchange({{at::full({kNumel}, -comm.rank(), at::kFloat), before}}, {{back, next}});
    ASSERT_OK(a);
    ASSERT_OK(b);
    ASSERT_OK(b->Wait());
    ASSERT_OK(a->Wait());
    EXPECT_TRUE(forth.eq(before).all().item<bool>());
    EXPECT_TRUE(back.eq(-next).all().item<bool>());
    { auto dropped = comm.Exchange({{forth, next}}, {{back, before}}); }  // destructor waits
    EXPECT_TRUE(back.eq((comm.rank() + 1) % 3).all().item<bool>());
  });
}

TEST(CommunicatorTest, CountsStepsAndBytes) {
  RunRanks(4, [&](std::shared_ptr<World> world) {
    Communicator& comm = *world->communicator();
    at::Tensor t = at::ones({1000}, at::kFloat);
    ASSERT_OK(comm.AllReduceSum(t));
    EXPECT_EQ(comm.counters().steps, 6);
    EXPECT_EQ(comm.counters().bytes_sent, 6 * 1000);
    const std::vector<int64_t> one(4, 1);
    ASSERT_OK(comm.AllToAll(at::ones({4, 5}, at::kBFloat16), one, one));
    EXPECT_EQ(comm.counters().steps, 6 + 3);
    EXPECT_EQ(comm.counters().bytes_sent, 6 * 1000 + 3 * 10);
    ASSERT_OK(comm.Barrier());
    EXPECT_EQ(comm.counters().steps, 6 + 3 + 2);
  });
  EXPECT_EQ(Communicator::Alone()->counters().steps, 0);
}

TEST(CommunicatorTest, AgreeReportsOneRanksFailureOnAll) {
  RunRanks(4, [&](std::shared_ptr<World> world) {
    Communicator& comm = *world->communicator();
    EXPECT_OK(comm.Agree(absl::OkStatus()));
    // Ranks fail at different points, but all of them call Agree.
    absl::Status mine;
    if (comm.rank() == 2) mine = absl::NotFoundError("weights.bin is missing");
    if (comm.rank() == 3) mine = absl::DataLossError("half a file");
    const absl::Status agreed = comm.Agree(mine);
    if (!mine.ok()) {
      EXPECT_EQ(agreed, mine);
    } else {
      EXPECT_THAT(agreed, StatusIs(absl::StatusCode::kNotFound, "rank 2: weights.bin is missing"));
    }
    EXPECT_OK(comm.Agree(absl::OkStatus()));  // the group still works
    const absl::Status long_one = comm.Agree(
        comm.rank() == 0 ? absl::InternalError(std::string(5000, 'x')) : absl::OkStatus());
    EXPECT_EQ(long_one.message().size(), comm.rank() == 0 ? 5000 : 1024 + 8);
  });
  EXPECT_THAT(Communicator::Alone()->Agree(absl::NotFoundError("x")),
              StatusIs(absl::StatusCode::kNotFound, "x"));
}

TEST(CommunicatorTest, AGroupOfOneDoesNothing) {
  const auto alone = Communicator::Alone();
  at::Tensor t = at::ones({3});
  EXPECT_OK(alone->AllReduceSum(t));
  EXPECT_OK(alone->Broadcast(t, 0));
  EXPECT_OK(alone->Barrier());
  auto rows = alone->AllToAll(t, {3}, {3});
  ASSERT_OK(rows);
  EXPECT_TRUE(BitEqual(*rows, t));
  at::Tensor copy = at::zeros({3});
  auto transfer = alone->Exchange({{t, 0}}, {{copy, 0}});
  ASSERT_OK(transfer);
  EXPECT_OK(transfer->Wait());
  EXPECT_TRUE(BitEqual(copy, t));
}

TEST(CommunicatorTest, RefusesTheCallersMistakesBeforeAnythingIsSent) {
  RunRanks(2, [&](std::shared_ptr<World> world) {
    Communicator& comm = *world->communicator();
    at::Tensor flags = at::zeros({2}, at::kBool);
    EXPECT_THROW(comm.AllReduceSum(flags).IgnoreError(), c10::Error);
    EXPECT_THROW(comm.AllToAll(at::zeros({3}), {1, 1}, {1, 1}).IgnoreError(), c10::Error);
    EXPECT_THROW(comm.AllToAll(at::zeros({2}), {2}, {2}).IgnoreError(), c10::Error);
    EXPECT_THROW(comm.AllGather(at::zeros({3}), {1, 1}).IgnoreError(), c10::Error);
    EXPECT_THROW(comm.Exchange({{flags, 2}}, {}).IgnoreError(), c10::Error);
    EXPECT_THROW(comm.Exchange({}, {{at::zeros({2, 2}).t(), 1 - comm.rank()}}).IgnoreError(),
                 c10::Error);
    at::Tensor t = at::ones({2});
    EXPECT_THROW(comm.Broadcast(t, 5).IgnoreError(), c10::Error);
    EXPECT_OK(comm.AllReduceSum(t));
  });
}

// A late rank makes the call fail after its timeout. (The ranks of this test wait for each other by
// these counters, because a collective would have the same timeout.)
TEST(CommunicatorTest, ALateRankEndsTheCallAtTheDeadline) {
  std::atomic<int> come = 0, gave_up = 0;
  RunRanks(
      3,
      [&](std::shared_ptr<World> world) {
        Communicator& comm = *world->communicator();
        at::Tensor t = at::ones({4});
        ++come;
        while (come < 3 && !::testing::Test::HasFailure()) absl::SleepFor(absl::Milliseconds(1));
        if (comm.rank() == 1) {
          while (gave_up < 2 && !::testing::Test::HasFailure())
            absl::SleepFor(absl::Milliseconds(10));
          const absl::Status late = comm.AllReduceSum(t);
          EXPECT_THAT(late, StatusIs(absl::StatusCode::kUnavailable,
                                     HasSubstr("all_reduce_sum on group 'world', rank ")));
          return;
        }
        const absl::Status status = comm.AllReduceSum(t);
        EXPECT_FALSE(status.ok());
        EXPECT_THAT(std::string(status.message()),
                    AllOf(HasSubstr("all_reduce_sum on group 'world', rank "),
                          HasSubstr("not done within 3s: rank 1 is alive but has not entered it")));
        // The group stays failed and reports the error without communicating.
        const absl::Duration waited = world->waited();
        EXPECT_THAT(std::string(comm.Barrier().message()), HasSubstr("not done within 3s"));
        EXPECT_EQ(world->waited(), waited);
        ++gave_up;
      },
      absl::Seconds(3));
}

TEST(CommunicatorTest, WhatARankWaitsInCallsIsCounted) {
  std::atomic<bool> waits = false;
  RunRanks(2, [&](std::shared_ptr<World> world) {
    Communicator& comm = *world->communicator();
    ASSERT_OK(comm.Barrier());
    const absl::Duration before = world->waited();
    EXPECT_GT(before, absl::ZeroDuration());
    const absl::Time start = absl::Now();
    if (comm.rank() == 1) {
      while (!waits && !::testing::Test::HasFailure()) absl::SleepFor(absl::Milliseconds(1));
      absl::SleepFor(absl::Milliseconds(100));
      EXPECT_EQ(world->waited(), before) << "this was no call";
    }
    waits = true;
    EXPECT_OK(comm.Barrier());
    EXPECT_GT(world->waited(), before);
    EXPECT_LE(world->waited() - before, absl::Now() - start);
  });
}

TEST(CommunicatorTest, ARankThatEndsWhileConnectionsAreMadeIsNamed) {
  // Simulates that rank 1 has written its address to the store and has died: nothing listens at
  // that address, and it sends no heartbeat.
  const auto store = c10::make_intrusive<c10d::HashStore>();
  store->c10d::Store::set("join the world/1", "127.0.0.1");
  store->c10d::Store::set("make group 0 'world'/1", "");
  const auto world = World::ConnectThreads(store, 0, 2, absl::Minutes(10));
  EXPECT_THAT(world.status(), StatusIs(absl::StatusCode::kUnavailable,
                                       HasSubstr("rank 1 is stopped or out of reach")));
}

// A broken pipe raises no signal that ends the process, if the library owns the process; otherwise
// the process's signal handlers are not changed.
TEST(CommunicatorTest, OutlivesABrokenPipe) {
  const auto handler = [] {
    struct sigaction standing {};
    sigaction(SIGPIPE, nullptr, &standing);
    return standing.sa_handler;
  };
  RendezvousOptions options{.rank = 1,
                            .world_size = 2,
                            .port = 1,
                            .deadline = absl::Milliseconds(100),
                            .own_process = false};  // no server listens at this address
  const auto before = handler();
  EXPECT_FALSE(World::Connect(options).ok());
  EXPECT_EQ(handler(), before);
  options.own_process = true;
  EXPECT_FALSE(World::Connect(options).ok());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(write(ends[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  close(ends[1]);
}

TEST(CommunicatorTest, AnAbortEndsTheOthersPendingCalls) {
  std::atomic<int> waiting = 0;
  RunRanks(4, [&](std::shared_ptr<World> world) {
    Communicator& comm = *world->communicator();
    if (comm.rank() == 3) {
      while (waiting < 3 && !::testing::Test::HasFailure()) absl::SleepFor(absl::Milliseconds(10));
      world->Abort("the disk is full");
      return;
    }
    // Rank 0 waits for 1, 1 for 2, 2 for 3: only rank 2 waits for rank 3, which fails.
    at::Tensor t = at::empty({10});
    auto transfer = comm.Exchange({}, {{t, comm.rank() + 1}});
    ASSERT_OK(transfer);
    ++waiting;
    EXPECT_THAT(transfer->Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                           HasSubstr("rank 3 has failed: the disk is full")));
    EXPECT_THAT(comm.Barrier(),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the disk is full")));
  });
}

TEST(CommunicatorTest, AClosedWorldSaysSo) {
  RunRanks(2, [&](std::shared_ptr<World> world) {
    const auto comm = world->communicator();
    world->Close();
    world->Close();
    at::Tensor t = at::ones({1});
    EXPECT_THAT(comm->AllReduceSum(t), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                HasSubstr("group 'world' is closed")));
    EXPECT_FALSE(world->Split({0, 1}, "more").ok());
  });
}

}  // namespace
}  // namespace moonring::comm
