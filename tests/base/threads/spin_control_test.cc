#include "base/threads/spin_control.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace moonring::base {
namespace {

int64_t Threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

// Waits, up to the test's time limit, until the condition is true: a thread that has ended leaves
// the list a moment later.
bool Becomes(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return true;
}

TEST(SpinControlTest, KeepsThreadsAsleepWhileOthersWaitForCores) {
  // A simulation of the kernel's count: while `busy`, each of two threads waits all the time.
  std::atomic<bool> busy = false;
  const auto start = std::chrono::steady_clock::now();
  const auto waited = [&busy, start]() -> int64_t {
    return busy ? 2 * std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count()
                : 0;
  };
  const std::shared_ptr<SpinControl> control = SpinControl::Start(/*threads=*/2, waited);
  if (control == nullptr) GTEST_SKIP() << "this kernel does not count how long threads wait";
  const int64_t calm = Threads();
  EXPECT_EQ(SpinControl::Start(/*threads=*/2), control) << "one for a process";
  busy = true;
  EXPECT_TRUE(Becomes([&] { return Threads() >= calm + 2; }));
  busy = false;
  EXPECT_TRUE(Becomes([&] { return Threads() == calm; }));
}

// The kernel's measurement: threads wait for cores if there are more threads than cores.
TEST(SpinControlTest, ReadsHowLongThreadsWait) {
  if (access("/proc/self/schedstat", R_OK) != 0)
    GTEST_SKIP() << "this kernel does not count how long threads wait";
  const int64_t before = SpinControl::WaitedForCores();
  std::atomic<bool> busy = true;
  std::vector<std::thread> spinners;
  for (unsigned i = 0; i < 3 * std::thread::hardware_concurrency(); ++i) {
    spinners.emplace_back([&busy] {
      while (busy) {
      }
    });
  }
  EXPECT_TRUE(Becomes([&] { return SpinControl::WaitedForCores() - before > 100'000'000; }));
  busy = false;
  for (std::thread& spinner : spinners) spinner.join();
}

TEST(SpinControlTest, LeavesTheChoiceToTheUser) {
  EXPECT_EQ(SpinControl::Start(/*threads=*/1), nullptr);
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
    setenv(name, "active", /*replace=*/1);
    EXPECT_EQ(SpinControl::Start(/*threads=*/2), nullptr) << name;
    unsetenv(name);
  }
}

TEST(SpinControlTest, EndsWithItsThreads) {
  const int64_t before = Threads();
  for (int i = 0; i < 3; ++i) (void)SpinControl::Start(/*threads=*/2);
  EXPECT_TRUE(Becomes([&] { return Threads() == before; }));
}

}  // namespace
}  // namespace moonring::base
