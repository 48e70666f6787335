#include "tests/testing/connected_ranks.h"

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace moonring::testing {
namespace {

constexpr absl::Duration kDeadline = absl::Minutes(10);

void OnThreads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const ::testing::ScopedTrace trace(__FILE__, __LINE__,
                                         absl::StrCat("on rank ", rank, " of ", ranks));
      at::set_num_threads(1);
      body(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

bool ConnectedRanks::Connect() {
  setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);  // as RunRanks does
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::atomic<bool> connected = true;
  worlds_.assign(ranks_, nullptr);
  OnThreads(ranks_, [&](int rank) {
    auto world = comm::World::ConnectThreads(store, rank, ranks_, kDeadline);
    absl::Status status = world.status();
    if (status.ok()) status = (*world)->communicator()->Barrier();
    if (!status.ok()) {
      connected = false;
      ADD_FAILURE() << "connecting: " << status;
    } else {
      worlds_[rank] = *std::move(world);
    }
  });
  if (!connected) Close();
  return connected;
}

void ConnectedRanks::Run(const std::function<void(std::shared_ptr<comm::World>)>& body) {
  if (worlds_.empty() && !Connect()) return;
  std::atomic<bool> failed = false;
  OnThreads(ranks_, [&](int rank) {
    std::string failure;
    try {
      body(worlds_[rank]);
      if (::testing::Test::HasFatalFailure()) failure = "a fatal failure of the test";
    } catch (const std::exception& exception) {
      failure = exception.what();
      ADD_FAILURE() << "threw " << failure;
    }
    if (failure.empty()) return;
    failed = true;
    worlds_[rank]->Abort(failure);
  });
  if (failed) Close();
}

void ConnectedRanks::Close() {
  for (const std::shared_ptr<comm::World>& world : worlds_) {
    if (world != nullptr) world->Close();
  }
  worlds_.clear();
}

}  // namespace moonring::testing
