#ifndef MOONRING_TESTS_TESTING_RUN_RANKS_H_
#define MOONRING_TESTS_TESTING_RUN_RANKS_H_

// Ranks as threads of one process, over loopback:
//
//   RunRanks(4, [](std::shared_ptr<comm::World> world) {
//     at::Tensor t = at::ones({3});
//     ASSERT_OK(world->communicator()->AllReduceSum(t));
//     EXPECT_EQ(t[0].item<float>(), 4);
//   });
//
// Failures of gtest in any rank are failures of the test, each with its rank. A rank that throws or
// leaves by a fatal failure ends the others' calls, so nothing hangs: the first cause is reported
// first. `deadline` is a call's; connecting takes as many tries as it needs.

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "comm/process_groups.h"

namespace moonring::testing {

// Runs `body` once a rank. Each thread has one intra-op thread, as a rank's process of its own
// would under OMP_NUM_THREADS=1.
void RunRanks(int ranks, const std::function<void(std::shared_ptr<comm::World>)>& body,
              absl::Duration deadline = absl::Minutes(10));

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_RUN_RANKS_H_
