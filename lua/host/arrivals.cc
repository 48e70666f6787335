#include "lua/host/arrivals.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "lua/host/signal_count.h"

namespace moonring::lua {
namespace {

constexpr int kCaught[] = {SIGCHLD, SIGUSR1, SIGINT, SIGTERM, SIGHUP};

// Variables that the signal handler uses.
std::atomic<int> arrivals_to = -1;
SignalCount counts[NSIG];

void NoteArrival(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const Arrival arrival{signal, AddNow(counts[signal], *info)};
  (void)!write(arrivals_to, &arrival, sizeof(arrival));
  errno = error;
}

}  // namespace

Arrivals::Arrivals() {
  if (pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0) {
    std::perror("moonring: pipe");
    std::exit(1);
  }
  arrivals_to = pipe_[1];
  struct sigaction action = {}, now = {};
  action.sa_sigaction = &NoteArrival;
  action.sa_flags = SA_RESTART | SA_SIGINFO | SA_NOCLDSTOP;
  for (const int caught : kCaught) {
    sigaction(caught, nullptr, &now);
    before_.push_back(now);
    if (caught == SIGCHLD || now.sa_handler != SIG_IGN) sigaction(caught, &action, nullptr);
  }
}

Arrivals::~Arrivals() {
  for (size_t i = 0; i < before_.size(); ++i) sigaction(kCaught[i], &before_[i], nullptr);
  arrivals_to = -1;
  for (const int end : pipe_) close(end);
}

bool Arrivals::Next(Arrival& arrival) const {
  return read(pipe_[0], &arrival, sizeof(arrival)) == sizeof(arrival);
}

}  // namespace moonring::lua
