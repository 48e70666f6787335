#ifndef MOONRING_LUA_HOST_PROCESS_START_H_
#define MOONRING_LUA_HOST_PROCESS_START_H_

// Process setup that must come first in the program `moonring`. A runtime embedded in another
// application does not call it, because signals and descriptors belong to that application.

namespace moonring::lua {

// Opens /dev/null for each of the descriptors 0, 1 and 2 that is closed (by cron, some launchers,
// or a shell's 2>&-). Otherwise the first files that are opened would get these numbers, and output
// for the terminal would be written into them. Exits with code 1 if /dev/null cannot be opened.
void OpenStandardStreams();

// After this call, a failed write is an error of that write and does not end the process:
//
//   SIGPIPE   the reader of the output has ended (tee, head, a closed ssh)
//   SIGXFSZ   a file has reached the limit of ulimit -f
//   SIGBUS    a mapped file was truncated, or its disk cannot be read: one line that names the
//             file, and exit code 1; any other SIGBUS ends the process as usual
//
// The signals are handled rather than ignored, because programs started by this process would
// inherit an ignored signal. If the parent ignores SIGPIPE or SIGXFSZ, they stay ignored.
void CatchFailedWrites();

// After this call, the process also survives when only stdout has lost its reader; for training
// runs and Moonring's commands. Without this call, a user's script then ends by SIGPIPE, like any
// program in a pipe: since `print` reports no error, a loop of prints would never end.
void OutliveStdout();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HOST_PROCESS_START_H_
