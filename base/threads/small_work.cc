#include "base/threads/small_work.h"

#include <omp.h>

// MKL, which is contained in LibTorch, has its own number of threads. This function sets it; it is
// missing in a LibTorch built without MKL.
extern "C" int MKL_Set_Num_Threads_Local(int threads) __attribute__((weak));

namespace moonring::base {
namespace {

// Work is small if it is within both limits. Many rows are enough work for several threads, and so
// are large matrices with few rows, because large matrices take long to read.
constexpr int64_t kProducts = int64_t{1} << 25;  // multiplications: a millisecond on one core
constexpr int64_t kElements = int64_t{1} << 19;  // 2 MB in fp32: the size of a core's own cache

}  // namespace

// Does not use at::set_num_threads, which also changes what other threads read and discards
// oneDNN's prepared kernels.
SmallWorkScope::SmallWorkScope(int64_t rows, int64_t elements) {
  const int threads = omp_get_max_threads();
  if (threads < 2 || elements > kElements || rows * elements > kProducts) return;
  threads_ = threads;
  omp_set_num_threads(1);
  if (MKL_Set_Num_Threads_Local != nullptr) mkl_threads_ = MKL_Set_Num_Threads_Local(1);
}

SmallWorkScope::~SmallWorkScope() {
  if (threads_ == 0) return;
  omp_set_num_threads(threads_);
  if (MKL_Set_Num_Threads_Local != nullptr) MKL_Set_Num_Threads_Local(mkl_threads_);
}

}  // namespace moonring::base
