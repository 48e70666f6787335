// A library for LD_PRELOAD that simulates a limit on threads: creating a process's thread number
// FEW_THREADS (counted from 0), or a later one, fails with EAGAIN.

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  static std::atomic<int> left =
      std::getenv("FEW_THREADS") != nullptr ? std::atoi(std::getenv("FEW_THREADS")) : 0;
  return left-- > 0 ? create(thread, attributes, run, argument) : EAGAIN;
}
