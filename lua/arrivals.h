#ifndef MOONRING_LUA_ARRIVALS_H_
#define MOONRING_LUA_ARRIVALS_H_

// The signals that come to a launcher of ranks: out of a handler, through a pipe, into its loop.
//
// By handlers, not by a mask and signalfd: LibTorch may have started threads in this process, which
// block nothing, and a signal goes to any thread that takes it. One at a time in a process.

#include <signal.h>

#include <vector>

namespace moonring::lua {

struct Arrival {
  int signal = 0;
  int times = 0;  // that it was sent by now (lua/signal_count.h)
};

// Catches SIGCHLD, SIGUSR1, SIGINT, SIGTERM and SIGHUP for its life; what is ignored stays so, for
// the ranks too (nohup ignores SIGHUP), but for SIGCHLD.
class Arrivals {
 public:
  Arrivals();  // ends the process where there is no pipe to be had
  ~Arrivals();
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  int descriptor() const { return pipe_[0]; }  // readable where one waits
  bool Next(Arrival& arrival) const;

 private:
  int pipe_[2] = {-1, -1};
  std::vector<struct sigaction> before_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_ARRIVALS_H_
