#ifndef MOONRING_BASE_MEMORY_HEAP_H_
#define MOONRING_BASE_MEMORY_HEAP_H_

// What malloc has from the kernel: TCMalloc's figures where it is linked (the host), else the C
// library's.

#include <cstdint>
#include <limits>

namespace moonring::base {

struct HeapBytes {
  int64_t used = 0;  // given to callers and not freed
  int64_t held = 0;  // free, and not given back to the kernel
};

HeapBytes ReadHeap();  // some 10 microseconds

// Gives what is held back to the kernel, as far as whole pages are free: where faulting it in
// again, at 0.25 s a GiB, would take no longer than `seconds`.
void ReleaseHeap(double seconds = std::numeric_limits<double>::infinity());

// Gives back what is held beyond kLeastHeld, or 1 / kShareOfUsed of what is used where that is
// more: so much is kept, and block after block works in the same pages. Measured on SmolLM2 in
// bf16, 512 tokens, two cores: no faults a step, 88,000 with half of it, and the same peak. (The C
// library's malloc keeps none where it gives back any.) For places within a step where sizes
// change: a backward frees blocks' inputs and makes gradients, and what was of one size lies fallow
// in small pieces while the other wants more.
inline constexpr int64_t kLeastHeld = int64_t{512} << 20, kShareOfUsed = 8;
void TrimHeap();

// From now on malloc takes no more from the kernel than it has now and `bytes` besides, whoever
// asks: `new` throws std::bad_alloc then, and malloc gives NULL. It has pages that are partly free,
// so leave it some room beside what is to be used. False where nothing limits it (without
// TCMalloc).
bool LimitHeap(int64_t bytes);

}  // namespace moonring::base

#endif  // MOONRING_BASE_MEMORY_HEAP_H_
