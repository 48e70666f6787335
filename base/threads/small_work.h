#ifndef MOONRING_BASE_THREADS_SMALL_WORK_H_
#define MOONRING_BASE_THREADS_SMALL_WORK_H_

// Work that is faster on one thread than on several.
//
// Entering and leaving a parallel region costs a few microseconds, and hundreds on a busy machine
// where its threads must be woken. The matmuls of a small model take less: a step of a model with 2
// layers of width 64 takes 5.0 ms with two threads and 3.7 ms with one on an idle machine, and 59
// ms and 4.7 ms next to one busy process.

#include <cstdint>

namespace moonring::base {

// While an object of this class is alive, operators on the calling thread use only that thread, if
// multiplying `rows` rows by matrices with `elements` elements in all is small work. The decision
// depends only on the shapes, so that a run's results do not depend on the machine's load.
class SmallWorkScope {
 public:
  SmallWorkScope(int64_t rows, int64_t elements);
  ~SmallWorkScope();
  SmallWorkScope(const SmallWorkScope&) = delete;
  SmallWorkScope& operator=(const SmallWorkScope&) = delete;

 private:
  int threads_ = 0, mkl_threads_ = 0;  // to restore; threads_ 0: nothing was changed
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_THREADS_SMALL_WORK_H_
