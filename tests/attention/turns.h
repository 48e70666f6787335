#ifndef MOONRING_TESTS_ATTENTION_TURNS_H_
#define MOONRING_TESTS_ATTENTION_TURNS_H_

// Timing on a machine that other processes use too: the compared functions run alternately, and the
// best time of each counts.

#include <algorithm>
#include <ctime>
#include <functional>
#include <limits>

#include <ATen/Parallel.h>

namespace moonring::testing {

inline double Now(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds that `body` takes: the thread's CPU time if there is only one thread, so that other
// processes have no influence; otherwise wall time.
inline double SecondsOf(const std::function<void()>& body) {
  const clockid_t clock = at::get_num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  const double start = Now(clock);
  body();
  return Now(clock) - start;
}

// Seconds of a forward and of a backward.
struct Seconds {
  double forward = std::numeric_limits<double>::infinity(), backward = forward;

  double both() const { return forward + backward; }
  void KeepLeast(const Seconds& now) {
    forward = std::min(forward, now.forward), backward = std::min(backward, now.backward);
  }
};

// Calls `turn` until `seconds` have passed, at least twice.
inline void TakeTurns(double seconds, const std::function<void()>& turn) {
  const double end = Now(CLOCK_MONOTONIC) + seconds;
  for (int turns = 0; turns < 2 || Now(CLOCK_MONOTONIC) < end; ++turns) turn();
}

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_ATTENTION_TURNS_H_
