#ifndef MOONRING_TESTS_TESTING_CONNECTED_RANKS_H_
#define MOONRING_TESTS_TESTING_CONNECTED_RANKS_H_

// Ranks as threads (run_ranks.h) that stay connected, for tests that run many functions on the same
// number of ranks.
//
//   ConnectedRanks four(4);
//   four.Run([](std::shared_ptr<comm::World> world) { ... });
//   four.Run([](std::shared_ptr<comm::World> world) { ... });
//
// Connecting P ranks costs P^2 / 2 pairs of sockets; each run costs P threads. If a run fails on
// any rank, the calls of the other ranks end with an error, and the next run connects once more.

#include <functional>
#include <memory>
#include <vector>

#include "comm/process_groups.h"

namespace moonring::testing {

class ConnectedRanks {
 public:
  explicit ConnectedRanks(int ranks) : ranks_(ranks) {}
  ~ConnectedRanks() { Close(); }
  ConnectedRanks(const ConnectedRanks&) = delete;
  ConnectedRanks& operator=(const ConnectedRanks&) = delete;

  int size() const { return ranks_; }

  // Runs `body` on each rank, each with one intra-op thread.
  void Run(const std::function<void(std::shared_ptr<comm::World>)>& body);

 private:
  bool Connect();
  void Close();

  int ranks_;
  std::vector<std::shared_ptr<comm::World>> worlds_;  // by rank; none before the first run
};

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_CONNECTED_RANKS_H_
