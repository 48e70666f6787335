#include "base/threads/batch_threads.h"

#include <sched.h>

#include <thread>

#include "gtest/gtest.h"

namespace moonring::base {
namespace {

int Policy() { return sched_getscheduler(0); }

int PolicyOfANewThread() {
  int policy = -1;
  std::thread([&policy] { policy = Policy(); }).join();
  return policy;
}

TEST(BatchThreadsTest, NewThreadsAreBatchWorkAndThisOneIsAsBefore) {
  const int before = Policy();
  if (before != SCHED_OTHER) GTEST_SKIP() << "this process is not SCHED_OTHER";
  {
    const BatchThreads batch;
    EXPECT_EQ(PolicyOfANewThread(), SCHED_BATCH);
  }
  EXPECT_EQ(Policy(), before);
  EXPECT_EQ(PolicyOfANewThread(), before);
}

TEST(BatchThreadsTest, APolicyOfTheUserStays) {
  std::thread([] {
    const sched_param no_priority{};
    ASSERT_EQ(sched_setscheduler(0, SCHED_IDLE, &no_priority), 0);
    {
      const BatchThreads batch;
      EXPECT_EQ(PolicyOfANewThread(), SCHED_IDLE);
    }
    EXPECT_EQ(Policy(), SCHED_IDLE);
  }).join();
}

}  // namespace
}  // namespace moonring::base
