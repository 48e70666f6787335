#ifndef MOONRING_LUA_UNCONFINED_EXEC_H_
#define MOONRING_LUA_UNCONFINED_EXEC_H_

// Exec for a process that may open few files (lua/confined_process.h). The new program is Moonring
// again, which needs more files to start, and confines itself then. Landlock restricts a thread and
// the threads that it starts later; so a thread that was started before can still call execv. It
// waits for this and does nothing else.

namespace moonring::lua {

// Starts that thread. To be called once a process, before GiveUpOtherFiles, by a process that does
// not fork later: a fork would not have the thread.
void KeepUnconfinedThread();

// execv by that thread, where there is one, with the caller's signal mask. Returns where it fails,
// with errno set.
void ExecUnconfined(const char* path, char* const* argv);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_UNCONFINED_EXEC_H_
