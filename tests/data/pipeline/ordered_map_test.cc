// Results come in the order of the items, with any number of threads. Also run with ThreadSanitizer
// (--config=tsan).
#include "data/pipeline/ordered_map.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonring::data {
namespace {

// The first of every eight items takes longest, so that others overtake it.
int64_t Work(int64_t item) {
  volatile int64_t spun = 0;
  for (int64_t i = 0; i < (item % 8 == 0 ? 40000 : 10); ++i) spun = spun + i;
  return item * item;
}

TEST(OrderedMapTest, KeepsTheOrder) {
  for (const int64_t threads : {1, 2, 3, 8}) {
    std::atomic<int64_t> run = 0;
    OrderedMap<std::unique_ptr<int64_t>, int64_t> map(threads, [&](std::unique_ptr<int64_t> item) {
      ++run;
      return Work(*item);
    });
    int64_t next = 0, taken = 0, most = 0;
    constexpr int64_t kItems = 1000;
    while (next < kItems || !map.Empty()) {
      while (next < kItems && !map.Full()) map.Add(std::make_unique<int64_t>(next++));
      most = std::max(most, next - taken);
      ASSERT_EQ(map.Take(), taken * taken);
      ++taken;
    }
    EXPECT_EQ(taken, kItems);
    EXPECT_EQ(run, kItems);
    EXPECT_LE(most, 32 * threads);  // limited, whatever the number of items
  }
}

TEST(OrderedMapTest, ThrowsInOrderAndContinues) {
  for (const int64_t threads : {1, 4}) {
    const auto throw_one = [](int64_t item) {
      if (item == 1) throw std::runtime_error("one");
      return item;
    };
    OrderedMap<int64_t, int64_t> map(threads, throw_one, /*cores=*/4);
    for (int64_t item = 0; item < 3; ++item) {
      if (map.Full()) {
        EXPECT_EQ(map.Take(), 0);  // on one thread, one item at a time
        break;
      }
      map.Add(item);
    }
    if (threads == 1) {
      map.Add(1);
      EXPECT_THROW((void)map.Take(), std::runtime_error);
      map.Add(2);
    } else {
      EXPECT_EQ(map.Take(), 0);
      EXPECT_THROW((void)map.Take(), std::runtime_error);
    }
    EXPECT_EQ(map.Take(), 2);
    EXPECT_TRUE(map.Empty());
  }
}

TEST(OrderedMapTest, EndsWithItemsLeft) {
  OrderedMap<int64_t, int64_t> map(4, Work);
  while (!map.Full()) map.Add(8);
}

// Returns how many threads worked on `items` items, each of which waits until all threads have
// started.
int64_t ThreadsFor(int64_t threads, int64_t cores, int64_t items) {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  OrderedMap<int64_t, int64_t> map(
      threads,
      [&](int64_t item) {
        const std::lock_guard<std::mutex> lock(mutex);
        seen.insert(std::this_thread::get_id());
        return item;
      },
      cores);
  for (int64_t next = 0, taken = 0; taken < items; ++taken) {
    while (next < items && !map.Full()) map.Add(next++);
    EXPECT_EQ(map.Take(), taken);
  }
  return static_cast<int64_t>(seen.size());
}

TEST(OrderedMapTest, StartsNoMoreThreadsThanThereIsWorkFor) {
  EXPECT_LE(ThreadsFor(100000, /*cores=*/3, 1000), 3);
  EXPECT_LE(ThreadsFor(100000, /*cores=*/100000, 5), 5);
  EXPECT_LE(ThreadsFor(100000, std::thread::hardware_concurrency(), 100),
            std::thread::hardware_concurrency());
}

// The map also works in a process that cannot allocate thread stacks: none at all, or none after
// the first. (The test runs in a new process, because glibc reuses the stacks of ended threads.)
TEST(OrderedMapTest, ContinuesWithTheThreadsThatStarted) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto with_room_for = [](int64_t stacks) {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    pthread_attr_t attributes;
    size_t stack = 0;
    pthread_attr_init(&attributes);
    pthread_attr_getstacksize(&attributes, &stack);
    const rlim_t limit = pages * sysconf(_SC_PAGESIZE) + stacks * (stack + (64 << 10)) + (2 << 20);
    const rlimit limits{limit, limit};
    if (setrlimit(RLIMIT_AS, &limits) != 0) std::_Exit(2);
    std::_Exit(ThreadsFor(8, /*cores=*/8, 500) <= std::max<int64_t>(stacks, 1) ? 0 : 1);
  };
  for (const int64_t stacks : {0, 1})
    EXPECT_EXIT(with_room_for(stacks), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace moonring::data
