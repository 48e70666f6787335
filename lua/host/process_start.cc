#include "lua/host/process_start.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "lua/host/launcher.h"

namespace moonring::lua {
namespace {

std::atomic<bool> outlives_stdout = false;

// Whether the other end of a pipe or socket is closed.
bool IsBroken(int descriptor) {
  pollfd end = {descriptor, 0, 0};
  return poll(&end, 1, 0) > 0 && (end.revents & POLLERR) != 0;
}

void NotePipe(int) {
  const int error = errno;
  if (!outlives_stdout && IsBroken(STDOUT_FILENO) && !IsBroken(STDERR_FILENO)) {
    ::signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);  // delivered after this handler has returned
  }
  errno = error;
}

void NoteNothing(int) {}

// The path of the file that is mapped at an address; "" if there is none. Reads /proc/self/maps in
// pieces, because a model may have 90,000 mappings, one for each weight.
std::string FileMappedAt(uintptr_t address) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return "";
  char line[4352];  // a path has at most 4,096 bytes
  std::string path;
  while (path.empty() && std::fgets(line, sizeof line, maps) != nullptr) {
    char* rest = nullptr;
    const uintptr_t begin = std::strtoull(line, &rest, 16);
    if (*rest != '-') continue;
    const uintptr_t end = std::strtoull(rest + 1, &rest, 16);
    if (address < begin || address >= end) continue;
    const char* const file = std::strchr(rest, '/');
    if (file == nullptr) break;
    path.assign(file, std::strcspn(file, "\n"));
  }
  std::fclose(maps);
  return path;
}

// Handler of SIGBUS. It runs on the thread that read the page, which was computing with the model's
// weights and not inside malloc or stdio; therefore it may allocate memory and print.
void NoteBrokenPage(int signal, siginfo_t* info, void*) {
  static std::atomic<bool> taken = false;
  if (taken.exchange(true)) {
    for (;;) pause();  // another thread prints the message and ends the process
  }
  const std::string path = FileMappedAt(reinterpret_cast<uintptr_t>(info->si_addr));
  if (path.empty()) {
    ::signal(signal, SIG_DFL);
    raise(signal);
    return;
  }
  ReportError({.message = path + ": cannot be read any more: it is shorter than when it was "
                                 "opened, or its disk fails. Replace a file that is in use by "
                                 "renaming the new one over it"});
  _exit(1);
}

void HandleUnlessSet(int signal, void (*handler)(int)) {
  struct sigaction standing {};
  if (sigaction(signal, nullptr, &standing) != 0 || standing.sa_handler != SIG_DFL) return;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void OpenStandardStreams() {
  int opened = 0;
  do {
    opened = open("/dev/null", O_RDWR);
    if (opened < 0) _exit(1);  // there is no stream for a message
  } while (opened <= STDERR_FILENO);
  close(opened);
}

void CatchFailedWrites() {
  HandleUnlessSet(SIGPIPE, &NotePipe);
  HandleUnlessSet(SIGXFSZ, &NoteNothing);
  struct sigaction action {};
  action.sa_sigaction = &NoteBrokenPage;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGBUS, &action, nullptr);
}

void OutliveStdout() { outlives_stdout = true; }

}  // namespace moonring::lua
