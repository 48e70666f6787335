// Results in the order of the items, on any number of threads; run it under --config=tsan too.
#include "data/ordered_map.h"

#include <atomic>
#include <memory>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonring::data {
namespace {

// Takes longest of the first of every eight items, so that the others overtake it.
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
    EXPECT_LE(most, 32 * threads);  // what is held does not grow with the items
  }
}

TEST(OrderedMapTest, ThrowsInPlaceAndGoesOn) {
  for (const int64_t threads : {1, 4}) {
    OrderedMap<int64_t, int64_t> map(threads, [](int64_t item) {
      if (item == 1) throw std::runtime_error("one");
      return item;
    });
    for (int64_t item = 0; item < 3; ++item) {
      if (map.Full()) {
        EXPECT_EQ(map.Take(), 0);  // on one thread an item at a time
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

}  // namespace
}  // namespace moonring::data
