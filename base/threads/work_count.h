#ifndef MOONRING_BASE_THREADS_WORK_COUNT_H_
#define MOONRING_BASE_THREADS_WORK_COUNT_H_

// How far a long piece of work is (rows that are prepared, tensors that are written). Who does it
// counts, on whatever thread; who shows it reads. Nobody waits for anybody.

#include <atomic>
#include <cstdint>

namespace moonring::base {

struct WorkCount {
  std::atomic<int64_t> done = 0;
  std::atomic<int64_t> total = 0;  // 0: not known
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_THREADS_WORK_COUNT_H_
