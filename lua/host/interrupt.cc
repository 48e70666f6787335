#include "lua/host/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "lua/host/signal_count.h"

namespace moonring::lua {
namespace {

// Variables that the signal handler writes.
CancelFlag flag = Cancel::kNone;
std::atomic<bool> running = false;
std::atomic<int> seen = 0;
SignalCount count;
int ends[2] = {-1, -1};

void Note(int, siginfo_t* info, void*) {
  const int error = errno;
  const int times = AddNow(count, *info);
  for (int before = seen; before < times;) {
    if (!seen.compare_exchange_weak(before, times)) continue;
    if (running) {
      flag = Cancel::kNow;
    } else {
      (void)!write(ends[1], "", 1);
    }
    break;
  }
  errno = error;
}

}  // namespace

std::shared_ptr<const CancelFlag> CatchInterrupts() {
  if (ends[0] < 0 && pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
    struct sigaction action = {};
    action.sa_sigaction = &Note;
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    sigaction(SIGINT, &action, nullptr);
  }
  return {&flag, [](const CancelFlag*) {}};
}

void BeginInterruptible() {
  flag = Cancel::kNone;
  running = true;
}

bool EndInterruptible() {
  running = false;
  return flag.exchange(Cancel::kNone) == Cancel::kNow;
}

bool IsInterrupted() { return flag == Cancel::kNow; }

int InterruptDescriptor() { return ends[0]; }

}  // namespace moonring::lua
