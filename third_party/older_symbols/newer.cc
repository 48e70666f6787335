// Functions that our programs and the libraries in them call and that glibc 2.28 and GCC 8's
// libstdc++ do not have, or have under other names. Each is hidden: it belongs to the program that
// it is linked into, and replaces nobody else's. A missing one is an undefined reference at link
// time.

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

// glibc before 2.33 has these in place of stat and its kind; `version` is that of struct stat.
extern "C" {
int __xstat(int version, const char* path, struct stat* buffer);
int __lxstat(int version, const char* path, struct stat* buffer);
int __fxstat(int version, int file, struct stat* buffer);
int __fxstatat(int version, int folder, const char* path, struct stat* buffer, int flags);
}

#pragma GCC visibility push(hidden)

// C++20 inlines stringbuf::str() const &, which libstdc++ exports since GCC 11.
template std::string std::basic_stringbuf<char>::str() const&;

extern "C" {

// Tells libstdc++'s headers whether a reference count may do without atomic instructions
// (glibc 2.32): never.
extern char __libc_single_threaded;
char __libc_single_threaded = 0;

// glibc 2.33.
constexpr int kStatVersion = 1;
int stat(const char* path, struct stat* buffer) { return __xstat(kStatVersion, path, buffer); }
int lstat(const char* path, struct stat* buffer) { return __lxstat(kStatVersion, path, buffer); }
int fstat(int file, struct stat* buffer) { return __fxstat(kStatVersion, file, buffer); }
int fstatat(int folder, const char* path, struct stat* buffer, int flags) {
  return __fxstatat(kStatVersion, folder, path, buffer, flags);
}

// glibc 2.30.
pid_t gettid() { return static_cast<pid_t>(syscall(SYS_gettid)); }

// glibc 2.33; mallinfo's fields are int, so an older system counts modulo 4 GiB.
struct mallinfo2 mallinfo2() {
  using Function = struct mallinfo2 (*)();
  static const auto newer = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "mallinfo2"));
  if (newer != nullptr) return newer();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const struct mallinfo old = mallinfo();
#pragma GCC diagnostic pop
  const auto count = [](int value) { return static_cast<size_t>(static_cast<unsigned>(value)); };
  struct mallinfo2 info = {};
  info.arena = count(old.arena);
  info.ordblks = count(old.ordblks);
  info.smblks = count(old.smblks);
  info.hblks = count(old.hblks);
  info.hblkhd = count(old.hblkhd);
  info.usmblks = count(old.usmblks);
  info.fsmblks = count(old.fsmblks);
  info.uordblks = count(old.uordblks);
  info.fordblks = count(old.fordblks);
  info.keepcost = count(old.keepcost);
  return info;
}

// glibc 2.36.
void arc4random_buf(void* buffer, size_t size) {
  char* at = static_cast<char*>(buffer);
  while (size > 0) {
    const ssize_t made = getrandom(at, size, 0);
    if (made < 0 && errno != EINTR) abort();  // as arc4random_buf does
    if (made <= 0) continue;
    at += made;
    size -= static_cast<size_t>(made);
  }
}

// glibc 2.30. On older systems a deadline of another clock becomes one of CLOCK_REALTIME, as
// libstdc++ did before; callers check their own clock again.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* deadline) {
  using Function = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
  static const auto newer =
      reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"));
  if (newer != nullptr) return newer(condition, mutex, clock, deadline);
  constexpr int64_t kSecond = 1'000'000'000;
  const auto nanoseconds = [](const struct timespec& time) {
    return static_cast<int64_t>(time.tv_sec) * kSecond + time.tv_nsec;
  };
  struct timespec here = {}, real = {};
  clock_gettime(clock, &here);
  clock_gettime(CLOCK_REALTIME, &real);
  const int64_t end = nanoseconds(real) + nanoseconds(*deadline) - nanoseconds(here);
  const struct timespec until = {.tv_sec = static_cast<time_t>(end / kSecond),
                                 .tv_nsec = static_cast<long>(end % kSecond)};
  return pthread_cond_timedwait(condition, mutex, &until);
}

// glibc 2.34. On older systems each file from `from` on that is open now is closed in the child by
// its number; posix_spawn ignores an error of a close.
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t* actions, int from) {
  using Function = int (*)(posix_spawn_file_actions_t*, int);
  static const auto newer = reinterpret_cast<Function>(
      dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addclosefrom_np"));
  if (newer != nullptr) return newer(actions, from);
  // The limit of open files may be a billion, so the open ones are listed.
  DIR* const open_files = opendir("/proc/self/fd");
  if (open_files == nullptr) return errno;
  int error = 0;
  while (const dirent* const entry = error == 0 ? readdir(open_files) : nullptr) {
    const int file = atoi(entry->d_name);  // 0 for . and ..
    if (file >= from) error = posix_spawn_file_actions_addclose(actions, file);
  }
  closedir(open_files);
  return error;
}

}  // extern "C"

#pragma GCC visibility pop
