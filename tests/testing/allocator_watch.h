#ifndef MOONRING_TESTS_TESTING_ALLOCATOR_WATCH_H_
#define MOONRING_TESTS_TESTING_ALLOCATOR_WATCH_H_

// Watches the memory of host tensors, of all threads, for as long as it lives:
//
//   const AllocatorWatch watch;                     // counts
//   const AllocatorWatch watch({.poison = true});   // counts, and makes reads of what nobody wrote
//   show
//
// live   bytes of storage allocated since it began and not freed yet
// peak   the most of these at a time, since it began or since ResetPeak()
//
// and the same of what one thread allocated, wherever that is freed: of a rank where ranks are
// threads.
//
// Poison: memory is filled with 0xFF, a NaN in fp64, fp32, bf16 and fp16, when it is allocated and
// again just before it is freed. So a result that took in memory never written is NaN, and so is
// one that read freed memory, where that is still mapped.
//
// It takes the place of the process's CPU allocator: one watch at a time, begun and ended while no
// other thread makes tensors. Memory may outlive it and is then freed as ever; memory from before
// is not counted. Cost: 64 bytes an allocation, four atomic additions, and with poison two writes
// of the memory.

#include <cstdint>

namespace moonring::testing {

class AllocatorWatch {
 public:
  struct Options {
    bool poison = false;
  };

  AllocatorWatch();
  explicit AllocatorWatch(const Options& options);  // throws c10::Error where another watch lives
  ~AllocatorWatch();
  AllocatorWatch(const AllocatorWatch&) = delete;
  AllocatorWatch& operator=(const AllocatorWatch&) = delete;

  int64_t live_bytes() const;
  int64_t peak_bytes() const;
  void ResetPeak() const;

  // Of the calling thread's.
  int64_t thread_live_bytes() const;
  int64_t thread_peak_bytes() const;
  void ResetThreadPeak() const;
};

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_ALLOCATOR_WATCH_H_
