#include "lua/host/unconfined_exec.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace moonring::lua {
namespace {

// A request to the unrestricted thread. It lives until the process ends.
struct Exec {
  std::mutex mutex;
  std::condition_variable changed;
  bool there = false;  // whether the thread exists
  const char* path = nullptr;
  char* const* argv = nullptr;
  sigset_t signals;  // the caller's signal mask
  int error = 0;     // errno if execv failed
};
Exec& TheExec() {
  static auto* const exec = new Exec;
  return *exec;
}

void Wait(Exec& exec) {
  std::unique_lock<std::mutex> lock(exec.mutex);
  for (;;) {
    exec.changed.wait(lock, [&] { return exec.path != nullptr; });
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &exec.signals, nullptr);
    execv(exec.path, exec.argv);
    exec.error = errno;
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    exec.path = nullptr;
    exec.changed.notify_all();
  }
}

}  // namespace

void KeepUnconfinedThread() {
  Exec& exec = TheExec();
  const std::lock_guard<std::mutex> lock(exec.mutex);
  if (exec.there) return;
  sigset_t all, before;
  sigfillset(&all);  // leaves all signals to the other threads
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([&exec] { Wait(exec); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  exec.there = true;
}

void ExecUnconfined(const char* path, char* const* argv) {
  Exec& exec = TheExec();
  std::unique_lock<std::mutex> lock(exec.mutex);
  if (!exec.there) {
    execv(path, argv);
    return;
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &exec.signals);
  exec.argv = argv;
  exec.path = path;
  exec.changed.notify_all();
  exec.changed.wait(lock, [&] { return exec.path == nullptr; });
  errno = exec.error;
}

}  // namespace moonring::lua
