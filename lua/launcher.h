#ifndef MOONRING_LUA_LAUNCHER_H_
#define MOONRING_LUA_LAUNCHER_H_

// `-n RANKS`: starts the ranks of one machine as processes, with torchrun's environment variables,
// and ends with them.
//
//   - A rank is a fork: LibTorch is loaded once, 0.35 s of a core, and the ranks share what it
//   fills
//     memory with. So the launcher has no threads of its own, and no device, before they are there.
//   - The ranks' store goes through socket pairs that they inherit (MOONRING_STORE); MASTER_ADDR
//     and MASTER_PORT do not count.
//   - Rank 0 owns the terminal. A line that another rank writes on its stderr begins with
//     "[rank 2] ".
//   - Signals (INT, TERM, HUP, USR1) are forwarded to all ranks, with how often they came. After
//     the second of a kind that ends a run, a rank gets no more time than after a failure.
//   - Once a rank fails, the others get kGrace to say what they saw, then TERM, then KILL. The
//     message of the rank that failed by itself comes first, then those of its victims, each once.
//   - Of a prompt's ranks rank 0 has a socket pair with each other rank (MOONRING_PROMPT,
//     lua/line_channel.h), and SIGINT is passed on without ending anything.
//   - Ranks die with the launcher.
//   - Where a rank has offered it (OfferRestarts), all are started again after a failure, with
//     torchrun's TORCHELASTIC_RESTART_COUNT. Not after exit code 2 (it would come again), numbers
//     that are not finite (ABORTED), SIGINT, SIGTERM or SIGHUP.
//
// A rank hands its last message to the launcher through a pipe (ReportError), not through stderr,
// so that the order can be chosen.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace moonring::lua {

// Refuses (INVALID_ARGUMENT) more ranks than a machine can be meant to run: the larger of 64 and 8
// for each of its cores, and no more than the limits on a user's processes and on open files
// (ulimit -u, -n) leave room for.
absl::Status CheckRanks(int ranks);

// Forks `ranks` ranks. In each it returns nullopt, with the rank's environment and the signal
// handlers of before: the caller goes on as that rank. In the launcher it returns once they have
// ended, with the exit code: 0, the failed rank's own code (1 where a signal ended it), or 128+n
// where signal n ended the launcher. Does not return where the run was ended by a signal that is
// forwarded, nor where a rank cannot be started (then with exit code 2 for a limit on files or
// processes, else 1).
std::optional<int> LaunchRanks(int ranks, bool prompt = false);

// For a process that has done more than read its command line (it may have threads): starts it
// anew, by exec of `command`, to launch so many ranks.
[[noreturn]] void BecomeLauncher(int ranks, const std::vector<std::string>& command);

// How many ranks BecomeLauncher wants; 0 without it, and from the second call on.
int TakeRanksToLaunch();

// Tells the launcher of this rank, where there is one, that its run may be started again so many
// times in all.
void OfferRestarts(int restarts);

// A rank's last words: to the launcher where there is one, else to stderr as "moonring: message". A
// control character is spelt out (base/text/visible_text.h), as in each line of a rank's. A
// status word at its very beginning ("INVALID_ARGUMENT: ...", from the host's own scripts) is for
// the launcher alone and not printed.
void ReportError(const std::string& message);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_LAUNCHER_H_
