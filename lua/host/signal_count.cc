#include "lua/host/signal_count.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace moonring::lua {
namespace {

constexpr int64_t kSameMilliseconds = 2000;

}  // namespace

int SignalCount::Add(const siginfo_t& info, int64_t milliseconds) {
  if (info.si_code == SI_KERNEL) {
    ++typed_;
  } else if (info.si_code == SI_QUEUE && info.si_pid == getppid()) {
    const int times = std::max(1, info.si_value.sival_int);
    for (int before = passed_on_;
         before < times && !passed_on_.compare_exchange_weak(before, times);) {
    }
  } else {
    for (int64_t before = sent_at_; before < 0 || milliseconds - before >= kSameMilliseconds;) {
      if (!sent_at_.compare_exchange_weak(before, milliseconds)) continue;
      ++sent_;
      break;
    }
  }
  return std::max({1, typed_.load(), passed_on_.load(), sent_.load()});
}

int AddNow(SignalCount& count, const siginfo_t& info) {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return count.Add(info, int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000);
}

void PassOn(pid_t rank, int signal, int times) {
  sigval value = {};
  value.sival_int = times;
  if (sigqueue(rank, signal, value) != 0)
    kill(rank, signal);  // EAGAIN: the user's limit on queued signals
}

}  // namespace moonring::lua
