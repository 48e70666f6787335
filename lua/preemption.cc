#include "lua/preemption.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>

namespace moonring::lua {
namespace {

// A handler may touch nothing else.
volatile sig_atomic_t terminate_wished = 0, save_wished = 0;

void Note(int signal) { (signal == SIGTERM ? terminate_wished : save_wished) = 1; }

void Catch(int signal, int flags) {
  struct sigaction action = {};
  action.sa_handler = &Note;
  action.sa_flags = SA_RESTART | flags;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void CatchPreemption() {
  Catch(SIGTERM, SA_RESETHAND);
  Catch(SIGUSR1, 0);
}

int TakePreemption() {
  if (terminate_wished != 0) return SIGTERM;
  if (save_wished == 0) return 0;
  save_wished = 0;
  return SIGUSR1;
}

void EndBySignal(int signal) {
  std::fflush(nullptr);
  ::signal(signal, SIG_DFL);
  raise(signal);
  _exit(128 + signal);
}

}  // namespace moonring::lua
