#ifndef MOONRING_LUA_PREEMPTION_H_
#define MOONRING_LUA_PREEMPTION_H_

// SIGTERM and SIGUSR1, by which Slurm and its kin announce that a job's time is up, as wishes: a script asks for them at the border of a step.
// For the host's process alone: an embedded runtime leaves signals to whom it is embedded in.

namespace moonring::lua {

// From here on SIGUSR1 is noted, which else ends a process.
void CatchSaveWish();

// From here on both are. A second SIGTERM ends the process at once, but for one that comes within two seconds: from a launcher that passes on what came to its
// whole process group.
void CatchPreemption();

// SIGTERM, else SIGUSR1, which is taken back by that, else 0.
int TakePreemption();

// Ends the process as the signal does where nobody catches it.
[[noreturn]] void EndBySignal(int signal);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_PREEMPTION_H_
