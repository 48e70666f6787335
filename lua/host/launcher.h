#ifndef MOONRING_LUA_HOST_LAUNCHER_H_
#define MOONRING_LUA_HOST_LAUNCHER_H_

// `-n RANKS`: starts the ranks of one machine as processes, with torchrun's environment variables,
// and waits for them.
//
// - A rank is a fork of the launcher: LibTorch is loaded once (0.35 s of one core), and the ranks
//   share the memory that it initializes. Therefore the launcher must not have started threads or
//   used a GPU before.
// - The ranks' rendezvous store uses inherited socket pairs (MOONRING_STORE); MASTER_ADDR and
//   MASTER_PORT are not used.
// - Rank 0 owns the terminal. Lines that another rank writes to stderr are prefixed with
//   "[rank 2] ".
// - Signals (INT, TERM, HUP, USR1) are forwarded to all ranks, together with the number of times
//   that each was received. After a second signal of a kind that ends a run, ranks get only as much
//   time as after a failure.
// - When a rank fails, the others get kGrace to report their errors, then SIGTERM, then SIGKILL.
//   The launcher prints first the message of the rank that failed by itself (not because another
//   rank had failed), then the other ranks' messages, without duplicates.
// - At a prompt, rank 0 has a socket pair with each other rank (MOONRING_PROMPT,
//   lua/host/line_channel.h), and SIGINT is forwarded to the ranks, where it ends nothing.
// - Ranks die with the launcher.
// - If a rank has called OfferRestarts, all ranks are restarted after a failure, with torchrun's
//   TORCHELASTIC_RESTART_COUNT in their environment. They are not restarted after exit code 2 (the
//   error would recur), non-finite numbers (ABORTED), SIGINT, SIGTERM or SIGHUP.
//
// A rank passes its last error message to the launcher through a pipe (ReportError). The launcher
// prints the messages of all ranks, and so can choose their order.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lua/binding/error_value.h"

namespace moonring::lua {

// Refuses (INVALID_ARGUMENT) more ranks than is plausible for one machine: the larger of 64 and 8
// for each core, and no more than the user's limits on processes and open files (ulimit -u, -n)
// allow.
absl::Status CheckRanks(int ranks);

// Forks `ranks` processes. In each forked process it returns nullopt, with the rank's environment
// variables set and the previous signal handlers restored; the caller continues as that rank. In
// the launcher it returns after all ranks have ended, with the exit code: 0, the failed rank's exit
// code (1 if a signal ended the rank), or 128+n if signal n ended the launcher. It does not return
// if a forwarded signal ended the run, nor if a rank cannot be started (exit code 2 for a limit on
// files or processes, else 1).
std::optional<int> LaunchRanks(int ranks, bool prompt = false);

// Turns a process that may have started threads into a launcher of this many ranks: it runs
// `command` by exec, so that the new program has no threads before it forks.
[[noreturn]] void BecomeLauncher(int ranks, const std::vector<std::string>& command);

// Number of ranks that BecomeLauncher requested before the exec; 0 otherwise, and from the second
// call on.
int TakeRanksToLaunch();

// Allows this rank's launcher, if there is one, to restart the run up to this many times in total.
void OfferRestarts(int restarts);

// Reports a rank's final error: to the launcher if there is one, else to stderr as "moonring:
// message". Control characters are escaped (base/text/visible_text.h), as in every line that a rank
// prints. `more`: further lines, such as the script's traceback.
void ReportError(const ErrorValue& error, const std::string& more = "");

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HOST_LAUNCHER_H_
