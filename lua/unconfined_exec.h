#ifndef MOONRING_LUA_UNCONFINED_EXEC_H_
#define MOONRING_LUA_UNCONFINED_EXEC_H_

// Exec for a process that has given up files (lua/confined_process.h). What it becomes is Moonring
// anew, with all that a start needs, and gives them up by itself. Files are given up by threads,
// each with those that it starts; so a thread that was there before can do it. It waits for this
// and does nothing else.

namespace moonring::lua {

// Starts that thread. Before files are given up, once a process, where it has no thread to fork
// with later.
void KeepUnconfinedThread();

// execv by that thread, where there is one, with the caller's signal mask. Returns where it fails,
// with errno set.
void ExecUnconfined(const char* path, char* const* argv);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_UNCONFINED_EXEC_H_
