#ifndef MOONRING_BASE_THREADS_SPIN_CONTROL_H_
#define MOONRING_BASE_THREADS_SPIN_CONTROL_H_

// How long LibTorch's OpenMP threads spin before they sleep: long on an idle machine, hardly at all
// on a busy one.
//
// At the end of each parallel region a thread waits for the others. libgomp lets it spin for some
// milliseconds first, which is the fastest where each thread has a core. Where other programs keep
// the cores busy, a spinning thread holds the core that the thread it waits for needs, and a step
// takes up to 15 times as long. Sleeping at once, always, would cost an idle machine 20 %.
//
// A watching thread reads how long this process's threads were ready to run without a core
// (/proc/self/task/*/schedstat). From 10 % of each thread's time on, over some half a second, and
// until it is less than 6 %, it keeps a second team of threads asleep. libgomp then manages more
// threads than there are cores, and so spins 100 turns instead of 300,000 (its manual,
// GOMP_SPINCOUNT). No number changes: as many threads compute as before.
//
// Cost: one wake-up each 50 ms, some 50 us of it (less often where the process has many threads);
// while busy, sleeping threads: two for a program that uses every core, more for one of several on
// a machine.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace moonring::base {

class SpinControl {
 public:
  // Nanoseconds that this process's threads but the calling one have waited for a core, added up
  // over those that live.
  static int64_t WaitedForCores();

  // Starts watching for a program whose operators run on `threads` threads each; what watches
  // already is shared. Null where there is nothing to choose: the user has set OMP_WAIT_POLICY or
  // GOMP_SPINCOUNT, there is one thread alone, the kernel keeps no such account, or no thread can
  // be started. Not to be destroyed in a child that was forked meanwhile.
  static std::shared_ptr<SpinControl> Start(int threads,
                                            std::function<int64_t()> waited = WaitedForCores);

  ~SpinControl();
  SpinControl(const SpinControl&) = delete;
  SpinControl& operator=(const SpinControl&) = delete;

 private:
  SpinControl(int threads, std::function<int64_t()> waited);
  void Watch();
  void KeepTeam();     // makes libgomp spin briefly
  void ReleaseTeam();  // and long again

  const int threads_;
  const std::function<int64_t()> waited_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false, team_wanted_ = false;  // of watcher_, of team_
  std::thread watcher_, team_;
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_THREADS_SPIN_CONTROL_H_
