#ifndef MOONRING_LUA_PROCESS_START_H_
#define MOONRING_LUA_PROCESS_START_H_

// What the host's process settles before anything else in it. For the host alone: an embedded
// runtime leaves signals and descriptors to the program that embeds it.

namespace moonring::lua {

// Opens /dev/null as each of the descriptors 0, 1 and 2 that is closed (cron, some launchers, a
// shell's 2>&-). Else the first files that are opened get these numbers, and words for the terminal
// are written into them. Ends the process with exit code 1 where /dev/null cannot be opened.
void OpenStandardStreams();

// From here on a failed write is an error of that write, not the end of the process:
//
//   SIGPIPE   whoever read the output has gone (tee, head, a closed ssh)
//   SIGXFSZ   a file has reached the limit of ulimit -f
//   SIGBUS    a mapped file was cut short, or its disk cannot be read: one line that names the
//             file, and exit code 1; any other SIGBUS ends the process as before
//
// These are handlers, since programs that are started from here would inherit an ignored signal.
// Where the parent ignores SIGPIPE or SIGXFSZ, that stays.
void CatchFailedWrites();

// Where stdout alone (not stderr with it) has lost its reader, a user's script ends by SIGPIPE, as
// any program in a pipe does: `print` reports no error, so that a loop of it would never end.
// From this call on the process outlives that too: a run that trains, and Moonring's own commands.
void OutliveStdout();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_PROCESS_START_H_
