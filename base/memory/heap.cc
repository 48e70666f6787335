#include "base/memory/heap.h"

#include <malloc.h>

#include <algorithm>
#include <cstddef>

// TCMalloc's functions as weak references: tests, and builds with a sanitizer, are linked without
// it.
extern "C" {
__attribute__((weak)) int MallocExtension_GetNumericProperty(const char* property, size_t* value);
__attribute__((weak)) int MallocExtension_SetNumericProperty(const char* property, size_t value);
__attribute__((weak)) void MallocExtension_ReleaseFreeMemory(void);
__attribute__((weak)) void MallocExtension_ReleaseToSystem(size_t bytes);
}

namespace moonring::base {
namespace {

// Size of TCMalloc's internal tables, which its limit counts and heap_size does not.
constexpr int64_t kTables = 16 << 20;
// Time to fault in memory in pages of 4 KiB, which the kernel clears; measured on one core of a
// server.
constexpr double kFaultSecondsPerByte = 0.25 / (int64_t{1} << 30);

int64_t Property(const char* name) {
  size_t value = 0;
  return MallocExtension_GetNumericProperty(name, &value) != 0 ? static_cast<int64_t>(value) : 0;
}

}  // namespace

HeapBytes ReadHeap() {
  if (MallocExtension_GetNumericProperty != nullptr) {
    const int64_t used = Property("generic.current_allocated_bytes");
    return {used,
            Property("generic.heap_size") - Property("tcmalloc.pageheap_unmapped_bytes") - used};
  }
  const struct mallinfo2 info = mallinfo2();
  return {static_cast<int64_t>(info.uordblks + info.hblkhd), static_cast<int64_t>(info.fordblks)};
}

void ReleaseHeap(double seconds) {
  if (static_cast<double>(ReadHeap().held) * kFaultSecondsPerByte > seconds) return;
  if (MallocExtension_ReleaseFreeMemory != nullptr) {
    MallocExtension_ReleaseFreeMemory();
  } else {
    malloc_trim(0);
  }
}

void TrimHeap() {
  const HeapBytes heap = ReadHeap();
  const int64_t excess = heap.held - std::max(kLeastHeld, heap.used / kShareOfUsed);
  if (excess <= 0) return;
  if (MallocExtension_ReleaseToSystem != nullptr) {
    MallocExtension_ReleaseToSystem(static_cast<size_t>(excess));
  } else {
    ReleaseHeap();
  }
}

bool LimitHeap(int64_t bytes) {
  if (MallocExtension_SetNumericProperty == nullptr) return false;
  constexpr int64_t kUnit = 1 << 20;
  const int64_t most = Property("generic.heap_size") + kTables + bytes;
  return MallocExtension_SetNumericProperty("tcmalloc.heap_limit_mb",
                                            static_cast<size_t>(most / kUnit)) != 0;
}

}  // namespace moonring::base
