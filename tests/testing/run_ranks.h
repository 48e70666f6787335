#ifndef MOONRING_TESTS_TESTING_RUN_RANKS_H_
#define MOONRING_TESTS_TESTING_RUN_RANKS_H_

// Ranks as threads of one process, connected over loopback:
//
//   RunRanks(4, [](std::shared_ptr<comm::World> world) {
//     at::Tensor t = at::ones({3});
//     ASSERT_OK(world->communicator()->AllReduceSum(t));
//     EXPECT_EQ(t[0].item<float>(), 4);
//   });
//
// A gtest failure on any rank fails the test and is reported with its rank. If a rank throws or has
// a fatal failure, the pending calls of the other ranks end with an error, so nothing hangs; the
// first cause is reported first. `deadline` applies to each collective call; connecting retries as
// often as necessary.

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "comm/process_groups.h"

namespace moonring::testing {

// Runs `body` once on each rank. Each thread has one intra-op thread, as a separate process would
// have with OMP_NUM_THREADS=1.
void RunRanks(int ranks, const std::function<void(std::shared_ptr<comm::World>)>& body,
              absl::Duration deadline = absl::Minutes(10));

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_RUN_RANKS_H_
