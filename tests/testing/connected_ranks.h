#ifndef MOONRING_TESTS_TESTING_CONNECTED_RANKS_H_
#define MOONRING_TESTS_TESTING_CONNECTED_RANKS_H_

// Ranks as threads (run_ranks.h), over connections that stay: for tests that run many bodies on as
// many ranks.
//
//   ConnectedRanks four(4);
//   four.Run([](std::shared_ptr<comm::World> world) { ... });
//   four.Run([](std::shared_ptr<comm::World> world) { ... });
//
// Connecting costs P^2 / 2 pairs of sockets, a run P threads. A run that fails on any rank ends the
// others' calls; the next one connects anew.

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

  // Runs `body` once a rank, each with one intra-op thread.
  void Run(const std::function<void(std::shared_ptr<comm::World>)>& body);

 private:
  bool Connect();
  void Close();

  int ranks_;
  std::vector<std::shared_ptr<comm::World>> worlds_;  // by rank; none before the first run
};

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_CONNECTED_RANKS_H_
