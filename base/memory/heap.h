#ifndef MOONRING_BASE_MEMORY_HEAP_H_
#define MOONRING_BASE_MEMORY_HEAP_H_

// Memory that malloc has obtained from the kernel: from TCMalloc's statistics if it is linked (in
// the program `moonring`), otherwise from the C library's.

#include <cstdint>
#include <limits>

namespace moonring::base {

struct HeapBytes {
  int64_t used = 0;  // allocated and not freed
  int64_t held = 0;  // free, but not returned to the kernel
};

HeapBytes ReadHeap();  // takes about 10 microseconds

// Returns free memory to the kernel, as far as whole pages are free, if faulting it in again (0.25
// s per GiB) would take at most `seconds`.
void ReleaseHeap(double seconds = std::numeric_limits<double>::infinity());

// Returns free memory to the kernel beyond kLeastHeld or 1 / kShareOfUsed of the used memory,
// whichever is larger. The rest is kept, so that the layers of the model reuse the same pages.
// Measured on SmolLM2 in bf16, 512 tokens, two cores: no page faults per step, where keeping half
// as much causes 88,000; the peak memory is the same. (The C library's malloc can only return all
// free memory.) Call it within a step when the sizes of allocations change: a backward frees
// blocks' inputs and allocates gradients, and freed pieces of one size cannot be reused for the
// other.
inline constexpr int64_t kLeastHeld = int64_t{512} << 20, kShareOfUsed = 8;
void TrimHeap();

// Limits the memory of the whole process: from this call on malloc may obtain only `bytes` more
// from the kernel than it has obtained so far; beyond that `new` throws std::bad_alloc and malloc
// returns NULL. Pages may be partly free, so allow some room beyond the expected use. Returns false
// if nothing enforces the limit (without TCMalloc).
bool LimitHeap(int64_t bytes);

}  // namespace moonring::base

#endif  // MOONRING_BASE_MEMORY_HEAP_H_
