#include "lua/binding/native_stack.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace moonring::lua {
namespace {

constexpr size_t kReserve = 256 << 10;

// Returns the lowest usable address of this thread's stack; 0 if it is unknown.
uintptr_t Lowest() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* base = nullptr;
  size_t size = 0;
  const bool known = pthread_attr_getstack(&attributes, &base, &size) == 0;
  pthread_attr_destroy(&attributes);
  return known ? reinterpret_cast<uintptr_t>(base) + std::min(kReserve, size / 4) : 0;
}

}  // namespace

bool NativeStackIsShort() {
  thread_local const uintptr_t lowest = Lowest();
  return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) < lowest;
}

}  // namespace moonring::lua
