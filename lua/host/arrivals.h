#ifndef MOONRING_LUA_HOST_ARRIVALS_H_
#define MOONRING_LUA_HOST_ARRIVALS_H_

// Signals received by a launcher of ranks, passed from a signal handler through a pipe to its main
// loop.
//
// Signal handlers are used instead of a signal mask and signalfd, because LibTorch may have started
// threads in this process that do not block signals, and the kernel delivers a signal to any thread
// that accepts it. At most one object may exist in a process.

#include <signal.h>

#include <vector>

namespace moonring::lua {

struct Arrival {
  int signal = 0;
  int times = 0;  // how often the signal has been sent so far (lua/host/signal_count.h)
};

// Catches SIGCHLD, SIGUSR1, SIGINT, SIGTERM and SIGHUP while the object exists. Signals that were
// ignored before stay ignored, also for the ranks (nohup ignores SIGHUP); except SIGCHLD.
class Arrivals {
 public:
  Arrivals();  // ends the process if no pipe can be created
  ~Arrivals();
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  int descriptor() const { return pipe_[0]; }  // readable when a signal is pending
  bool Next(Arrival& arrival) const;

 private:
  int pipe_[2] = {-1, -1};
  std::vector<struct sigaction> before_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HOST_ARRIVALS_H_
