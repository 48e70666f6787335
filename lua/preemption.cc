#include "lua/preemption.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>

namespace moonring::lua {
namespace {

// A handler may touch nothing else.
volatile sig_atomic_t terminate_wished = 0, save_wished = 0;
volatile time_t terminate_wished_at = 0;

// Whoever signals the process group reaches a rank twice: by itself, and by its launcher, which passes on what it gets.
constexpr time_t kSameWishSeconds = 2;

time_t Now() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

void NoteTerminate(int signal) {
  if (terminate_wished == 0) {
    terminate_wished_at = Now();
    terminate_wished = 1;
  } else if (Now() - terminate_wished_at >= kSameWishSeconds) {
    ::signal(signal, SIG_DFL);
    raise(signal);  // which waits for the end of this handler
  }
}

void NoteSave(int) { save_wished = 1; }

void Catch(int signal, void (*note)(int)) {
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void CatchSaveWish() { Catch(SIGUSR1, &NoteSave); }

void CatchPreemption() {
  CatchSaveWish();
  Catch(SIGTERM, &NoteTerminate);
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
