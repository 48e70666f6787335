#ifndef MOONRING_LUA_SIGNAL_COUNT_H_
#define MOONRING_LUA_SIGNAL_COUNT_H_

// How often a process was sent a signal (SIGINT, say), where one sending may arrive several times:
//
//   - A terminal's Ctrl-C reaches every process of the foreground group: the launcher and each
//   rank. The launcher passes
//     on what it gets, so a rank gets it twice. Hence ways are counted apart and the largest count
//     is the answer; and what a launcher passes on carries the launcher's own count.
//   - A process may send the same signal to a process and to its group (timeout(1) does): what
//   other processes send
//     within two seconds counts once. Keys typed at a terminal each count, however quick.

#include <signal.h>

#include <atomic>
#include <cstdint>

namespace moonring::lua {

class SignalCount {
 public:
  // Takes one arrival, at `milliseconds` of any clock that only grows: how often the signal was
  // sent by now, from 1. May be called in a signal handler, on several threads at once.
  int Add(const siginfo_t& info, int64_t milliseconds);

 private:
  std::atomic<int> typed_ = 0, passed_on_ = 0, sent_ = 0;
  std::atomic<int64_t> sent_at_ = -1;  // -1: never
};

// The same at this moment.
int AddNow(SignalCount& count, const siginfo_t& info);

// From a launcher to one of its ranks: a signal and how often it came.
void PassOn(pid_t rank, int signal, int times);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_SIGNAL_COUNT_H_
