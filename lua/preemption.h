#ifndef MOONRING_LUA_PREEMPTION_H_
#define MOONRING_LUA_PREEMPTION_H_

// Signals that ask a run to save, or to save and end, as wishes: a script asks for them at the
// border of a step.
//
//   SIGUSR1                 save
//   SIGTERM SIGINT SIGHUP   save and end; a second one of a kind (lua/signal_count.h) ends the
//   process at once
//
// What is ignored as CatchPreemption is called stays ignored, but for SIGUSR1: nohup ignores
// SIGHUP, a shell SIGINT for what it starts in the background. For the host's process alone: an
// embedded runtime leaves signals to whom it is embedded in.

namespace moonring::lua {

// From here on SIGUSR1 is noted, which else ends a process.
void CatchSaveWish();

// From here on all are. `says`: the first that ends the run is answered on stderr at once; a step
// may take minutes. `at_end`: no further step comes, and the answer is another; may be said later.
void CatchPreemption(bool says, bool at_end = false);

// From here on those that end a run end the process at once again.
void ReleasePreemption();

// The first that came of those that end a run, else SIGUSR1, which is taken back by that, else 0.
int TakePreemption();

// "SIGTERM", and of its kin.
const char* NameOfSignal(int signal);

// Ends the process as the signal does where nobody catches it.
[[noreturn]] void EndBySignal(int signal);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_PREEMPTION_H_
