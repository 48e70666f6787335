#include "comm/small_work.h"

#include <omp.h>

// MKL, which is inside LibTorch, has a number of threads of its own. A LibTorch that was built without it has none.
extern "C" int MKL_Set_Num_Threads_Local(int threads) __attribute__((weak));

namespace moonring::comm {
namespace {

// Both must hold. Many rows are work for several threads, and so are large matrices for few rows: those take long to read.
constexpr int64_t kProducts = int64_t{1} << 25;  // multiplications: a millisecond of one core
constexpr int64_t kElements = int64_t{1} << 19;  // 2 MB in fp32: what a core's own cache holds

// Not at::set_num_threads, which also changes what other threads read and forgets oneDNN's prepared kernels.
void SetThreads(int threads) {
  omp_set_num_threads(threads);
  if (MKL_Set_Num_Threads_Local != nullptr) MKL_Set_Num_Threads_Local(threads);
}

}  // namespace

SmallWorkScope::SmallWorkScope(int64_t rows, int64_t elements) {
  const int threads = omp_get_max_threads();
  if (threads < 2 || elements > kElements || rows * elements > kProducts) return;
  threads_ = threads;
  SetThreads(1);
}

SmallWorkScope::~SmallWorkScope() {
  if (threads_ > 0) SetThreads(threads_);
}

}  // namespace moonring::comm
