#include "tests/testing/run_ranks.h"

#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace moonring::testing {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

// Connects all ranks, or none. On a busy machine Gloo sometimes finds a new connection closed, or a
// test's short deadline passes: then all ranks connect once more.
absl::StatusOr<std::shared_ptr<comm::World>> Connect(const StorePtr& store, int rank, int ranks,
                                                     absl::Duration deadline) {
  constexpr int kAttempts = 20;
  for (int attempt = 1;; ++attempt) {
    const std::string name = absl::StrCat("attempt ", attempt);
    auto world = comm::World::ConnectThreads(c10::make_intrusive<c10d::PrefixStore>(name, store),
                                             rank, ranks, deadline);
    store->set(absl::StrCat(name, " of ", rank), std::vector<uint8_t>{world.ok()});
    bool all = true;
    for (int other = 0; other < ranks; ++other)
      all = store->get(absl::StrCat(name, " of ", other)).front() != 0 && all;
    if (all || attempt == kAttempts) return world;
    if (world.ok()) {
      (*world)->Abort("another rank is not connected");
      (*world)->Close();
    }
  }
}

// The thread of one rank. Its failures are reported immediately; gtest's trace adds the rank.
void RunRank(const StorePtr& store, int rank, int ranks,
             const std::function<void(std::shared_ptr<comm::World>)>& body,
             absl::Duration deadline) {
  const ::testing::ScopedTrace trace(__FILE__, __LINE__,
                                     absl::StrCat("on rank ", rank, " of ", ranks));
  at::set_num_threads(1);
  auto world = Connect(store, rank, ranks, deadline);
  if (!world.ok()) {
    ADD_FAILURE() << "connecting: " << world.status();
    return;
  }
  std::string failure;
  try {
    body(*world);
    if (::testing::Test::HasFatalFailure()) failure = "a fatal failure of the test";
  } catch (const std::exception& exception) {
    failure = exception.what();
    ADD_FAILURE() << "threw " << failure;
  }
  if (!failure.empty()) (*world)->Abort(failure);
  (*world)->Close();
}

}  // namespace

void RunRanks(int ranks, const std::function<void(std::shared_ptr<comm::World>)>& body,
              absl::Duration deadline) {
  // c10d's flight recorder is one object per process and writes its table of groups outside its
  // lock (LibTorch 2.11), which is a race if ranks are threads. LibTorch reads this variable once,
  // at the first collective.
  setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { RunRank(store, rank, ranks, body, deadline); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace moonring::testing
