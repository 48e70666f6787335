#ifndef MOONRING_LUA_HOST_PREEMPTION_H_
#define MOONRING_LUA_HOST_PREEMPTION_H_

// Signals that ask a run to save a checkpoint, or to save one and end. A signal handler records
// them; a script checks for them between steps.
//
//   SIGUSR1                 save
//   SIGTERM SIGINT SIGHUP   save and end; a second signal of the same kind ends the process at once
//                           (signal_count.h)
//
// Signals that are ignored when CatchPreemption is called stay ignored, except SIGUSR1: nohup
// ignores SIGHUP, and a shell ignores SIGINT for background processes. Only for the program
// `moonring`: an embedded runtime leaves signals to its application.

namespace moonring::lua {

// After this call, SIGUSR1 is recorded; by default it would end the process.
void CatchSaveWish();

// The message on stderr that confirms the first signal that ends a run, because what runs may take
// minutes.
enum class PreemptionAnswer {
  kNone,
  kAtBorder,  // the run ends after its step
  kAtEnd,     // no further step follows
  kAfterJob,  // a service ends after the request that it runs
};

// After this call, all of these signals are recorded. A later call may set another answer.
void CatchPreemption(PreemptionAnswer says);

// After this call, SIGTERM, SIGINT and SIGHUP end the process at once, as by default.
void ReleasePreemption();

// Returns the first recorded signal that ends a run; else SIGUSR1 if it was recorded, which is then
// cleared; else 0.
int TakePreemption();

// The name of one of these signals: "SIGTERM".
const char* NameOfSignal(int signal);

// Ends the process by the signal's default action.
[[noreturn]] void EndBySignal(int signal);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HOST_PREEMPTION_H_
