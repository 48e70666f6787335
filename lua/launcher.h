#ifndef MOONRING_LUA_LAUNCHER_H_
#define MOONRING_LUA_LAUNCHER_H_

// `-n RANKS`: starts the ranks of one machine as processes, with torchrun's environment variables,
// and waits for them.
//
// - A rank is a fork: LibTorch is loaded once (0.35 s of one core), and the ranks share the memory
//   that it initializes. Therefore the launcher must not have started threads or used a GPU before.
// - The ranks' rendezvous store uses inherited socket pairs (MOONRING_STORE); MASTER_ADDR and
//   MASTER_PORT are not used.
// - Rank 0 owns the terminal. Lines that another rank writes to stderr are prefixed with
//   "[rank 2] ".
// - Signals (INT, TERM, HUP, USR1) are forwarded to all ranks, with how often they were received.
//   After a second signal of a kind that ends a run, ranks get only the time that they get after a
//   failure.
// - When a rank fails, the others get kGrace to report their errors, then SIGTERM, then SIGKILL.
//   The message of the rank that failed by itself is printed first, then the others', without
//   duplicates.
// - At a prompt, rank 0 has a socket pair with each other rank (MOONRING_PROMPT,
//   lua/line_channel.h), and SIGINT is forwarded without ending anything.
// - Ranks die with the launcher.
// - If a rank has requested it (OfferRestarts), all ranks are restarted after a failure, with
//   torchrun's TORCHELASTIC_RESTART_COUNT; not after exit code 2 (the error would recur),
//   non-finite numbers (ABORTED), SIGINT, SIGTERM or SIGHUP.
//
// A rank passes its last message to the launcher through a pipe (ReportError), not through stderr,
// so that the launcher can choose the order.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace moonring::lua {

// Refuses (INVALID_ARGUMENT) more ranks than is plausible for one machine: the larger of 64 and 8
// for each core, and no more than the user's limits on processes and open files (ulimit -u, -n)
// allow.
absl::Status CheckRanks(int ranks);

// Forks `ranks` ranks. Returns nullopt in each rank, with the rank's environment and the previous
// signal handlers; the caller continues as that rank. Returns in the launcher after all ranks have
// ended, with the exit code: 0, the failed rank's own code (1 if a signal ended it), or 128+n if
// signal n ended the launcher. Does not return if the run was ended by a forwarded signal, nor if a
// rank cannot be started (exit code 2 for a limit on files or processes, else 1).
std::optional<int> LaunchRanks(int ranks, bool prompt = false);

// For a process that may have started threads: restarts it by exec of `command` as a launcher of
// this many ranks.
[[noreturn]] void BecomeLauncher(int ranks, const std::vector<std::string>& command);

// Number of ranks requested by BecomeLauncher before the exec; 0 otherwise, and from the second
// call on.
int TakeRanksToLaunch();

// Tells this rank's launcher, if there is one, that it may restart the run up to this many times in
// total.
void OfferRestarts(int restarts);

// Reports a rank's final error: to the launcher if there is one, else to stderr as "moonring:
// message". Control characters are escaped (base/text/visible_text.h), as in every line of a rank.
// A status word at the very beginning ("INVALID_ARGUMENT: ...", from Moonring's own scripts) is
// only for the launcher and is not printed.
void ReportError(const std::string& message);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_LAUNCHER_H_
