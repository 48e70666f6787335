#ifndef MOONRING_BASE_THREADS_SPIN_CONTROL_H_
#define MOONRING_BASE_THREADS_SPIN_CONTROL_H_

// Controls how long LibTorch's OpenMP threads spin before they sleep: long on an idle machine,
// hardly at all on a busy one.
//
// At the end of each parallel region a thread waits for the others. libgomp first lets it spin for
// some milliseconds, which is the fastest if each thread has a core. If other programs keep the
// cores busy, a spinning thread occupies the core that the awaited thread needs, and a step takes
// up to 15 times as long. But always sleeping at once would cost 20 % on an idle machine.
//
// A watcher thread reads how long this process's threads were ready to run but had no core
// (/proc/self/task/*/schedstat). When that exceeds 10 % of each thread's time, averaged over about
// half a second, and until it falls below 6 %, the watcher keeps a second team of threads asleep.
// libgomp then manages more threads than there are cores, and therefore spins for 100 iterations
// instead of 300,000 (its manual, GOMP_SPINCOUNT). Results do not change: the same number of
// threads computes.
//
// Cost: one wake-up every 50 ms, which takes about 50 us (less often if the process has many
// threads); while the machine is busy, sleeping threads: two for a program that uses every core,
// more if several programs share the machine.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace moonring::base {

class SpinControl {
 public:
  // Nanoseconds that this process's live threads, except the calling one, have waited for a core,
  // in total.
  static int64_t WaitedForCores();

  // Starts the watcher for a program whose operators run on `threads` threads each; an existing
  // watcher is shared. Null if there is nothing to control: the user has set OMP_WAIT_POLICY or
  // GOMP_SPINCOUNT, there is only one thread, the kernel does not provide these statistics, or no
  // thread can be started. Must not be destroyed in a process forked after Start.
  static std::shared_ptr<SpinControl> Start(int threads,
                                            std::function<int64_t()> waited = WaitedForCores);

  ~SpinControl();
  SpinControl(const SpinControl&) = delete;
  SpinControl& operator=(const SpinControl&) = delete;

 private:
  SpinControl(int threads, std::function<int64_t()> waited);
  void Watch();
  void KeepTeam();     // makes libgomp spin briefly
  void ReleaseTeam();  // lets it spin long again

  const int threads_;
  const std::function<int64_t()> waited_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false, team_wanted_ = false;  // ends_ stops watcher_, team_wanted_ keeps team_
  std::thread watcher_, team_;
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_THREADS_SPIN_CONTROL_H_
