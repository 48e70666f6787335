#ifndef MOONRING_BASE_THREADS_WORK_COUNT_H_
#define MOONRING_BASE_THREADS_WORK_COUNT_H_

// Progress of a long piece of work (rows that are prepared, tensors that are written). The worker,
// on any thread, updates the numbers, and the progress display reads them. Neither waits for the
// other.

#include <atomic>
#include <cstdint>

namespace moonring::base {

struct WorkCount {
  std::atomic<int64_t> done = 0;
  std::atomic<int64_t> total = 0;  // 0: unknown
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_THREADS_WORK_COUNT_H_
