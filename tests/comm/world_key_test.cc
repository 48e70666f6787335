// A group of ranks that share a secret key, and programs without the key: whether these can join
// the group, and whether they can end it.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status/torch_status.h"
#include "comm/listening_sockets.h"
#include "comm/process_groups.h"
#include "comm/store/signed_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/busy_port.h"
#include "tests/testing/status_matchers.h"

namespace moonring::comm {
namespace {

using ::moonring::testing::FreePort;
using ::moonring::testing::IsOk;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr char kToken[] = "a token";
constexpr absl::Duration kDeadline = absl::Minutes(5);  // a timeout that no test reaches

using Joined = absl::StatusOr<std::shared_ptr<World>>;

class WorldKeyTest : public ::testing::Test {
 protected:
  // Runs `body` on ranks that are threads, each with its own token.
  void Run(const std::vector<std::string>& tokens,
           const std::function<void(int rank, Joined)>& body) {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < tokens.size(); ++rank) {
      threads.emplace_back([&, rank] {
        body(rank, World::ConnectThreads(store_, rank, tokens.size(), kDeadline, tokens[rank]));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  static double Sum(World& world) {
    at::Tensor sum = at::full({1}, world.rank() + 1.0);
    EXPECT_THAT(world.communicator()->AllReduceSum(sum), IsOk());
    return sum.item<double>();
  }
  void SetByAnother(const std::string& key, const std::string& words) {
    store_->c10d::Store::set(key, words);
  }

  // The underlying store, to which anybody can write.
  const c10::intrusive_ptr<c10d::HashStore> store_ = c10::make_intrusive<c10d::HashStore>();
};

TEST_F(WorldKeyTest, RanksWithOneTokenMeet) {
  Run({kToken, kToken, kToken}, [](int rank, Joined world) {
    ASSERT_THAT(world, IsOk());
    EXPECT_EQ(Sum(**world), 6);
    const auto pair = (*world)->Split({0, 2}, "pair");
    ASSERT_THAT(pair, IsOk());
    EXPECT_EQ(*pair == nullptr, rank == 1);
  });
}

TEST_F(WorldKeyTest, ARankWithAnotherTokenIsRefusedAndSaysWhy) {
  for (const std::string& other : {std::string("another"), std::string()}) {
    SCOPED_TRACE(other);
    for (const std::string& key : store_->listKeys()) store_->deleteKey(key);
    Run({kToken, other}, [&](int rank, Joined world) {
      EXPECT_FALSE(world.ok());
      if (rank != 0) return;
      EXPECT_THAT(world.status(), StatusIs(absl::StatusCode::kPermissionDenied,
                                           HasSubstr("a rank has another token or none")));
    });
  }
}

// Before the ranks are connected, a value in the store that another program has written ends the
// run with a message. The value is never used.
TEST_F(WorldKeyTest, AnAddressThatAnotherHasWrittenIsRefused) {
  SetByAnother("join the world/1", "127.0.0.1 0");
  const Joined world = World::ConnectThreads(store_, 0, 2, kDeadline, kToken);
  EXPECT_THAT(world.status(), StatusIs(absl::StatusCode::kPermissionDenied,
                                       HasSubstr("'join the world/1' is not signed")));
}

TEST_F(WorldKeyTest, ARankNumberIsTakenOnce) {
  SetByAnother("process of rank 0", "me");
  const Joined world = World::ConnectThreads(store_, 0, 2, kDeadline, kToken);
  EXPECT_THAT(world.status(), StatusIs(absl::StatusCode::kPermissionDenied,
                                       HasSubstr("'process of rank 0' is not signed")));
}

// After the ranks are connected, values in the store that no rank has signed do not end the run,
// while a rank's own values are read.
TEST_F(WorldKeyTest, WhatAnotherSaysDoesNotEndTheRun) {
  Run({kToken, kToken}, [&](int rank, Joined world) {
    ASSERT_THAT(world, IsOk());
    if (rank == 0) {
      SetByAnother("live/failed", "rank 1 has failed: says another");
      SetByAnother("live/left/1", "1");
    }
    // Both ranks make the same number of sums, over several heartbeats, each of which checks the
    // store.
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(Sum(**world), 3);
      absl::SleepFor(absl::Milliseconds(50));
    }
    if (rank == 1) return (*world)->Abort("the disk is full");
    at::Tensor never = at::zeros({1});
    EXPECT_THAT((*world)->communicator()->AllReduceSum(never),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the disk is full")));
  });
}

// Keeps reporting that rank 1 is alive, as rank 1 itself would, so that it does not count as dead
// even if it is slow.
class Heartbeat {
 public:
  explicit Heartbeat(c10::intrusive_ptr<c10d::Store> store)
      : thread_([this, store = std::move(store)] {
          for (int beat = 1; !over_; ++beat) {
            // The server of the store may have ended.
            (void)base::TryTorch([&] { store->set("live/alive/1", absl::StrCat(beat)); });
            absl::SleepFor(absl::Milliseconds(50));
          }
        }) {}
  ~Heartbeat() {
    over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

// A connection from a program without the run's key is rejected, although the store's values for
// rank 1 are valid: rank 1 exists, but the other program connects faster.
TEST_F(WorldKeyTest, AConnectionWithoutTheKeyIsRefused) {
  std::thread another([this] {
    const auto store = c10::make_intrusive<SignedStore>(store_, Secret(kToken));
    const Heartbeat heartbeat(store->clone());
    for (const char* key : {"process of rank 1", "join the world/1", "make group 0 'world'/1"}) {
      store->set(key, std::string("127.0.0.1 0"));
    }
    auto options = c10d::ProcessGroupGloo::Options::create(absl::ToChronoMilliseconds(kDeadline));
    options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
    options->threads = 1;
    const auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>("gloo/0", store), 1, 2, options);
    at::Tensor guess = at::zeros({64}, at::kByte), got = at::zeros({64}, at::kByte);
    std::vector<int64_t> evenly;
    // This call fails if rank 0 has already closed the connection.
    (void)base::TryTorch([&] { group->alltoall_base(got, guess, evenly, evenly)->wait(); });
  });
  const Joined world = World::ConnectThreads(store_, 0, 2, kDeadline, kToken);
  EXPECT_THAT(world.status(),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("the peer connected as rank 1 does not have this run's key")));
  another.join();
}

// Each connection between two ranks is authenticated. Gloo connects two ranks once per network
// interface. A program that passes on the first connection (in this test it has the key; otherwise
// that connection would be rank 1's own) is detected on the second.
TEST_F(WorldKeyTest, EachConnectionOfTwoRanksIsProved) {
  setenv("GLOO_SOCKET_IFNAME", "lo,lo", /*overwrite=*/1);
  const RendezvousOptions options{.rank = 0,
                                  .world_size = 2,
                                  .address = "0.0.0.0",
                                  .port = std::stoi(FreePort()),
                                  .deadline = kDeadline,
                                  .token = kToken};
  auto gloo = c10d::ProcessGroupGloo::Options::create(absl::ToChronoMilliseconds(kDeadline));
  for (int i = 0; i < 2; ++i)
    gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface("lo"));
  bool first_is_right = false;
  const auto impersonate = [&] {
    c10d::TCPStoreOptions to_store;
    to_store.port = static_cast<uint16_t>(options.port);
    c10::intrusive_ptr<c10d::Store> store =
        c10::make_intrusive<c10d::TCPStore>("127.0.0.1", to_store);
    store = c10::make_intrusive<SignedStore>(std::move(store), Secret(kToken));
    store = c10::make_intrusive<c10d::PrefixStore>("moonring", std::move(store));
    const Heartbeat heartbeat(store->clone());
    const std::string mine = "lo,lo another";
    store->set("process of rank 1", std::string("another"));
    store->set("join the world/1", mine);
    store->set("make group 0 'world'/1", std::string());
    const Secret key(
        Secret(kToken).Sign(absl::StrCat(store->get_to_str("join the world/0"), "\n", mine)));
    const auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>("gloo/0", store), 1, 2, gloo);
    at::Tensor said = at::zeros({64}, at::kByte), heard = at::zeros({64}, at::kByte);
    const auto proof = [&](const char* ranks) {
      return key.Sign(absl::StrCat("group 0 world, connection 0, ", ranks, " of 2"));
    };
    std::memcpy(said.mutable_data_ptr(), proof("rank 1 to rank 0").data(), Secret::kBytes);
    std::vector<int64_t> evenly;
    group->alltoall_base(heard, said, evenly, evenly)->wait();
    const auto* words = static_cast<const char*>(heard.const_data_ptr());
    first_is_right = std::string(words, Secret::kBytes) == proof("rank 0 to rank 1");
    at::Tensor guess = at::zeros({64}, at::kByte);
    // This call fails if rank 0 has already closed the connection.
    (void)base::TryTorch([&] { group->alltoall_base(heard, guess, evenly, evenly)->wait(); });
    // The process that serves the store waits until the others have left.
    (void)base::TryTorch([&] { store->set("live/left/1", std::string("1")); });
  };
  std::thread another([&] { EXPECT_THAT(base::TryTorch(impersonate), IsOk()); });
  const Joined world = World::Connect(options);
  EXPECT_THAT(world.status(),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("the peer connected as rank 1 does not have this run's key")));
  another.join();
  EXPECT_TRUE(first_is_right);
  unsetenv("GLOO_SOCKET_IFNAME");
}

constexpr int kAMoment = 300, kAsLongAsItTakes = 60'000;  // milliseconds

// Whether a connection to the socket's address succeeds within this time. On loopback it succeeds
// immediately or never.
bool Admits(int listening, int milliseconds) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  EXPECT_EQ(getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int caller = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int begun = connect(caller, reinterpret_cast<sockaddr*>(&address), size);
  pollfd made{caller, POLLOUT, 0};
  const bool admits =
      begun == 0 || (poll(&made, 1, milliseconds) == 1 && (made.revents & POLLERR) == 0);
  close(caller);
  return admits;
}

bool KernelShutsDoors() {
  const int any = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool shuts = ShutDoor(any);
  close(any);
  return shuts;
}

TEST(ListeningSocketsTest, AListenerClosesAndOpens) {
  if (!KernelShutsDoors()) GTEST_SKIP() << "this kernel has no TCP MD5 signatures";
  const std::set<int> before = ListeningSockets();
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(ListeningSockets(), before);
  ASSERT_EQ(listen(listening, 10), 0);
  std::set<int> after = before;
  after.insert(listening);
  EXPECT_EQ(ListeningSockets(), after);
  EXPECT_TRUE(Admits(listening, kAsLongAsItTakes));
  EXPECT_TRUE(ShutDoor(listening));
  EXPECT_FALSE(Admits(listening, kAMoment));
  OpenDoor(listening);
  EXPECT_TRUE(Admits(listening, kAsLongAsItTakes));
  close(listening);
}

// After the ranks are connected, Gloo's sockets accept no further connections.
TEST_F(WorldKeyTest, NobodyConnectsAfterTheRendezvous) {
  if (!KernelShutsDoors()) GTEST_SKIP() << "this kernel has no TCP MD5 signatures";
  const std::set<int> before = ListeningSockets();
  Run({kToken, kToken}, [&](int rank, Joined world) {
    ASSERT_THAT(world, IsOk());
    EXPECT_EQ(Sum(**world), 3);
    if (rank == 0) {
      std::set<int> now = ListeningSockets();
      std::erase_if(now, [&](int socket) { return before.contains(socket); });
      EXPECT_EQ(now.size(), 2u);
      for (const int socket : now) EXPECT_FALSE(Admits(socket, kAMoment));
    }
    EXPECT_EQ(Sum(**world), 3);
    ASSERT_THAT((*world)->Split({0, 1}, "more"), IsOk());
  });
}

}  // namespace
}  // namespace moonring::comm
