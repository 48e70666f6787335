#ifndef MOONRING_COMM_SPIN_CONTROL_H_
#define MOONRING_COMM_SPIN_CONTROL_H_

// How long LibTorch's OpenMP threads spin before they sleep: long on an idle machine, hardly at all on a busy one.
//
// At the end of each parallel region a thread waits for the others. libgomp lets it spin for some milliseconds first,
// which is the fastest where each thread has a core. Where other programs keep the cores busy, a spinning thread holds
// the core that the thread it waits for needs, and a step takes up to 15 times as long. Sleeping at once, always, would
// cost an idle machine 20 %.
//
// A watching thread reads how long this process's threads were ready to run without a core (/proc/self/task/*/schedstat).
// While that is more than 5 % of the time, it keeps a second team of threads asleep. libgomp then manages more threads
// than there are cores, and so spins 100 turns instead of 300,000 (its manual, GOMP_SPINCOUNT). No number changes: as
// many threads compute as before.
//
// Cost: one wake-up each 50 ms, some 50 us of it; while busy as many sleeping threads as the machine has cores.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace moonring::comm {

class SpinControl {
 public:
  // Starts watching for a program whose operators run on `threads` threads each. Null where there is nothing to choose:
  // the user has set OMP_WAIT_POLICY or GOMP_SPINCOUNT, there is one thread alone, the kernel keeps no such account, or
  // no thread can be started.
  static std::unique_ptr<SpinControl> Start(int threads);

  ~SpinControl();
  SpinControl(const SpinControl&) = delete;
  SpinControl& operator=(const SpinControl&) = delete;

 private:
  SpinControl() = default;
  void Watch();
  void KeepTeam();     // makes libgomp spin briefly
  void ReleaseTeam();  // and long again

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false, team_wanted_ = false;  // of watcher_, of team_
  std::thread watcher_, team_;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_SPIN_CONTROL_H_
