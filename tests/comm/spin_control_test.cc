#include "comm/spin_control.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace moonring::comm {
namespace {

int64_t Threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

// Looks seldom: a thread that wakes often on a busy machine waits for a core itself.
bool Becomes(const std::function<bool()>& condition) {
  for (int looks = 0; looks < 240; ++looks) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  return false;
}

TEST(SpinControlTest, KeepsATeamAsleepWhileThreadsWaitForCores) {
  const std::unique_ptr<SpinControl> control = SpinControl::Start(/*threads=*/2);
  if (control == nullptr) GTEST_SKIP() << "this kernel does not count how long threads wait";
  const int64_t calm = Threads();
  std::atomic<bool> busy = true;
  std::vector<std::thread> spinners;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  for (int i = 0; i < 3 * cores; ++i) {
    spinners.emplace_back([&busy] {
      while (busy) {
      }
    });
  }
  // Its team has a thread more than there are cores.
  EXPECT_TRUE(Becomes([&] { return Threads() >= calm + 3 * cores + cores + 1; })) << Threads();
  busy = false;
  for (std::thread& spinner : spinners) spinner.join();
  EXPECT_TRUE(Becomes([&] { return Threads() == calm; })) << Threads() << ", at first " << calm;
}

TEST(SpinControlTest, LeavesTheChoiceToTheUser) {
  EXPECT_EQ(SpinControl::Start(/*threads=*/1), nullptr);
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
    setenv(name, "active", /*replace=*/1);
    EXPECT_EQ(SpinControl::Start(/*threads=*/2), nullptr) << name;
    unsetenv(name);
  }
}

TEST(SpinControlTest, EndsWithItsTeam) {
  const int64_t before = Threads();
  for (int i = 0; i < 3; ++i) (void)SpinControl::Start(/*threads=*/2);
  EXPECT_EQ(Threads(), before);
}

}  // namespace
}  // namespace moonring::comm
