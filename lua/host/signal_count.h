#ifndef MOONRING_LUA_HOST_SIGNAL_COUNT_H_
#define MOONRING_LUA_HOST_SIGNAL_COUNT_H_

// Counts how often a signal (such as SIGINT) was sent to a process. One sending may arrive several
// times:
//
// - A terminal's Ctrl-C reaches every process of the foreground group: the launcher and each rank.
//   The launcher forwards its signals, so a rank receives each Ctrl-C twice. Therefore signals are
//   counted separately by source (terminal, launcher, other processes), and the largest of these
//   counts is the result. A forwarded signal contains the launcher's count.
// - A process may send the same signal to a process and to its group (timeout(1) does). Therefore
//   signals that other processes send within two seconds count as one. Keys typed at a terminal
//   always count.

#include <signal.h>

#include <atomic>
#include <cstdint>

namespace moonring::lua {

class SignalCount {
 public:
  // Counts one arrival, at the time `milliseconds` of any monotonic clock. Returns how often the
  // signal has been sent so far, from 1. Async-signal-safe and thread-safe.
  int Add(const siginfo_t& info, int64_t milliseconds);

 private:
  std::atomic<int> typed_ = 0, passed_on_ = 0, sent_ = 0;
  std::atomic<int64_t> sent_at_ = -1;  // -1: never
};

// Counts an arrival at the current time.
int AddNow(SignalCount& count, const siginfo_t& info);

// Forwards a signal from a launcher to one of its ranks, with the number of times it was received.
void PassOn(pid_t rank, int signal, int times);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HOST_SIGNAL_COUNT_H_
