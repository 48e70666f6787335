// A library for LD_PRELOAD: one operation on files below a folder fails, or ends the process.
//
//   FAULT=OP:N:WHAT    the N-th OP of a process; "N+": from the N-th on. WHAT: ENOSPC, EIO, EACCES,
//                      EMFILE, ENOMEM or kill (SIGKILL)
//   FAULT_UNDER=TEXT   only for paths that contain this text
//   FAULT_RANK=R       only in the process whose RANK is R
//   FAULT_FIRED=PATH   this file is created when the fault has occurred
//
// OP is open (for writing), write, fsync, rename, link, mkdir, unlink or truncate.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_int operations;

static int code_of(const char* what) {
  static const struct {
    const char* name;
    int code;
  } kCodes[] = {
      {"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EACCES", EACCES}, {"EMFILE", EMFILE}, {"ENOMEM", ENOMEM}};
  for (size_t i = 0; i < sizeof kCodes / sizeof *kCodes; ++i) {
    if (strcmp(what, kCodes[i].name) == 0) return kCodes[i].code;
  }
  return 0;
}

// Returns 0, or the errno with which this operation must fail.
static int fault(const char* op, const char* path) {
  const char *plan = getenv("FAULT"), *under = getenv("FAULT_UNDER"), *rank = getenv("FAULT_RANK"),
             *mine = getenv("RANK"), *fired = getenv("FAULT_FIRED");
  const size_t length = strlen(op);
  if (plan == NULL || strncmp(plan, op, length) != 0 || plan[length] != ':') return 0;
  if (under != NULL && strstr(path, under) == NULL) return 0;
  if (rank != NULL && (mine == NULL || strcmp(rank, mine) != 0)) return 0;
  char* rest;
  const long wanted = strtol(plan + length + 1, &rest, 10);
  const int from_then_on = *rest == '+', here = atomic_fetch_add(&operations, 1) + 1;
  if (from_then_on ? here < wanted : here != wanted) return 0;
  const char* what = strchr(rest, ':');
  if (what == NULL) return 0;
  if (fired != NULL) close((int)syscall(SYS_open, fired, O_CREAT | O_WRONLY, 0666));
  if (strcmp(what + 1, "kill") == 0) kill(getpid(), SIGKILL);
  return code_of(what + 1);
}

static int fault_at(const char* op, int descriptor) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = syscall(SYS_readlink, link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return fault(op, path);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL_IF(code)   \
  do {                  \
    const int e = code; \
    if (e != 0) {       \
      errno = e;        \
      return -1;        \
    }                   \
  } while (0)

#define OPEN(name)                                                     \
  int name(const char* path, int flags, ...) {                         \
    va_list more;                                                      \
    va_start(more, flags);                                             \
    const mode_t mode = va_arg(more, mode_t);                          \
    va_end(more);                                                      \
    if ((flags & O_ACCMODE) != O_RDONLY) FAIL_IF(fault("open", path)); \
    return NEXT(name)(path, flags, mode);                              \
  }
OPEN(open)
OPEN(open64)

int openat(int folder, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = va_arg(more, mode_t);
  va_end(more);
  if ((flags & O_ACCMODE) != O_RDONLY) FAIL_IF(fault("open", path));
  return NEXT(openat)(folder, path, flags, mode);
}

FILE* fopen(const char* path, const char* mode) {
  const int code = strpbrk(mode, "wa+") != NULL ? fault("open", path) : 0;
  if (code != 0) return errno = code, NULL;
  return NEXT(fopen)(path, mode);
}

ssize_t write(int fd, const void* bytes, size_t count) {
  FAIL_IF(fault_at("write", fd));
  return syscall(SYS_write, fd, bytes, count);
}

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  FAIL_IF(fault_at("write", fd));
  return syscall(SYS_pwrite64, fd, bytes, count, offset);
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  FAIL_IF(fault_at("write", fd));
  return syscall(SYS_writev, fd, parts, count);
}

int fsync(int fd) {
  FAIL_IF(fault_at("fsync", fd));
  return (int)syscall(SYS_fsync, fd);
}

int rename(const char* from, const char* to) {
  FAIL_IF(fault("rename", to));
  return NEXT(rename)(from, to);
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  FAIL_IF(fault("link", to));
  return NEXT(linkat)(from_folder, from, to_folder, to, flags);
}

int mkdir(const char* path, mode_t mode) {
  FAIL_IF(fault("mkdir", path));
  return NEXT(mkdir)(path, mode);
}

int unlink(const char* path) {
  FAIL_IF(fault("unlink", path));
  return NEXT(unlink)(path);
}

int unlinkat(int folder, const char* path, int flags) {
  FAIL_IF(fault("unlink", path));
  return NEXT(unlinkat)(folder, path, flags);
}

int ftruncate(int fd, off_t length) {
  FAIL_IF(fault_at("truncate", fd));
  return NEXT(ftruncate)(fd, length);
}
