#ifndef MOONRING_LUA_UNCONFINED_EXEC_H_
#define MOONRING_LUA_UNCONFINED_EXEC_H_

// exec for a process that has restricted its file access (lua/confined_process.h). The new program
// is Moonring again; it needs more files to start and then confines itself. Landlock restricts a
// thread and the threads that it starts later, so a thread started before can still call execv on
// unrestricted files. That thread waits for this request and does nothing else.

namespace moonring::lua {

// Starts that thread. Call it once, before GiveUpOtherFiles, in a process that does not fork later,
// because a fork would not have the thread.
void KeepUnconfinedThread();

// Calls execv on that thread, if it exists, with the caller's signal mask. Returns only if it
// fails, with errno set.
void ExecUnconfined(const char* path, char* const* argv);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_UNCONFINED_EXEC_H_
