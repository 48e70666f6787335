#include "comm/liveness.h"

#include <atomic>
#include <new>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace moonring::comm {
namespace {

// A connection to a store whose calls need more memory than this process has, while `fails` is set.
class ShortOfMemory : public c10d::HashStore {
 public:
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    Allocate();
    c10d::HashStore::set(key, value);
  }
  bool check(const std::vector<std::string>& keys) override {
    Allocate();
    return c10d::HashStore::check(keys);
  }
  std::atomic<bool> fails = false;
  std::atomic<int> failures = 0;

 private:
  void Allocate() {
    if (!fails) return;
    ++failures;
    throw std::bad_alloc();
  }
};

constexpr char kAnnounced[] = "rank 2 has died";

TEST(Liveness, OutlivesAShortageOfThisRanksMemory) {
  const auto store = c10::make_intrusive<ShortOfMemory>();
  std::atomic<bool> hung_up = false;
  Liveness liveness(store, /*rank_0_serves=*/true, /*rank=*/1, /*size=*/3, [&] { hung_up = true; });
  store->fails = true;
  const int before = store->failures;
  while (store->failures < before + 2) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(liveness.Cause(), "");
  store->fails = false;
  static_cast<c10d::Store&>(*store).set("failed", kAnnounced);
  while (!hung_up) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(liveness.Cause(), kAnnounced);
}

TEST(Liveness, BlamesThisRankForAShortageOfItsMemory) {
  const auto store = c10::make_intrusive<ShortOfMemory>();
  Liveness liveness(store, /*rank_0_serves=*/true, /*rank=*/1, /*size=*/3, [] {});
  store->fails = true;
  EXPECT_EQ(liveness.Blame(/*late=*/false), "rank 1: out of memory");
  store->fails = false;
}

}  // namespace
}  // namespace moonring::comm
