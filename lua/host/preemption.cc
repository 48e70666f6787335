#include "lua/host/preemption.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "lua/host/signal_count.h"

namespace moonring::lua {
namespace {

constexpr int kEndingSignals[] = {SIGHUP, SIGINT, SIGTERM};

// Variables that the signal handlers write. They are atomic, because two threads may run a handler
// at the same time.
std::atomic<int> end_wished = 0, save_wished = 0;
std::atomic<const char*> answer = nullptr;  // null: none
SignalCount ending_counts[SIGTERM + 1];     // indexed by signal number; SIGTERM is the largest of
                                            // kEndingSignals

constexpr const char* WordsOf(PreemptionAnswer says) {
  switch (says) {
    case PreemptionAnswer::kNone:
      return nullptr;
    case PreemptionAnswer::kAtBorder:
      return "the run is saved and ends at the border of the next step";
    case PreemptionAnswer::kAtEnd:
      return "the run is at its end: it is saved and ends by itself";
    case PreemptionAnswer::kAfterJob:
      return "the service ends after the request that it runs now; the next start continues with "
             "the others";
  }
  return nullptr;
}

void AnswerSignal(int signal, const char* words) {
  char text[200];
  char* end = stpcpy(text, isatty(STDERR_FILENO) != 0 ? "\n" : "");  // on a line below the progress
                                                                     // bar
  for (const char* part : {NameOfSignal(signal), ": ", words, "; once more ends it now\n"})
    end = stpcpy(end, part);
  (void)!write(STDERR_FILENO, text, end - text);
}

void NoteEnd(int signal, siginfo_t* info, void*) {
  const int error = errno;
  if (AddNow(ending_counts[signal], *info) > 1) {
    ::signal(signal, SIG_DFL);
    raise(signal);  // delivered after this handler has returned
  }
  int none = 0;
  const char* words = answer;
  if (end_wished.compare_exchange_strong(none, signal) && words != nullptr)
    AnswerSignal(signal, words);
  errno = error;
}

void NoteSave(int) { save_wished = 1; }

}  // namespace

void CatchSaveWish() {
  struct sigaction action = {};
  action.sa_handler = &NoteSave;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

void CatchPreemption(PreemptionAnswer says) {
  CatchSaveWish();
  answer = WordsOf(says);
  struct sigaction action = {}, now = {};
  action.sa_sigaction = &NoteEnd;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  for (const int signal : kEndingSignals) {
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
      sigaction(signal, &action, nullptr);
  }
}

void ReleasePreemption() {
  struct sigaction now = {};
  for (const int signal : kEndingSignals) {
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_sigaction == &NoteEnd)
      ::signal(signal, SIG_DFL);
  }
}

int TakePreemption() {
  if (const int signal = end_wished; signal != 0) return signal;
  return save_wished.exchange(0) != 0 ? SIGUSR1 : 0;
}

const char* NameOfSignal(int signal) {
  switch (signal) {
    case SIGHUP:
      return "SIGHUP";
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return "a signal";
  }
}

void EndBySignal(int signal) {
  std::fflush(nullptr);
  ::signal(signal, SIG_DFL);
  raise(signal);
  _exit(128 + signal);
}

}  // namespace moonring::lua
