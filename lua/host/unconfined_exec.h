#ifndef MOONRING_LUA_HOST_UNCONFINED_EXEC_H_
#define MOONRING_LUA_HOST_UNCONFINED_EXEC_H_

// exec for a process that has restricted its own file access (lua/host/confined_process.h). The new
// program is Moonring again: it needs more files to start, and restricts itself afterwards. The
// kernel's restriction (Landlock) applies to a thread and to the threads that it starts later, so a
// thread that was started before can still call execv on any file. That thread waits for this
// request and does nothing else.

namespace moonring::lua {

// Starts the thread that stays unrestricted. Call it once, before GiveUpOtherFiles, in a process
// that does not fork later, because a forked process would not have the thread.
void KeepUnconfinedThread();

// Calls execv on the unrestricted thread, if it exists, with the caller's signal mask. Returns only
// if execv fails, with errno set.
void ExecUnconfined(const char* path, char* const* argv);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HOST_UNCONFINED_EXEC_H_
