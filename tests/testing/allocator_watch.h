#ifndef MOONRING_TESTS_TESTING_ALLOCATOR_WATCH_H_
#define MOONRING_TESTS_TESTING_ALLOCATOR_WATCH_H_

// Counts the memory of host tensors, of all threads, while the watch is alive:
//
//   const AllocatorWatch watch;                     // counts
//   const AllocatorWatch watch({.poison = true});   // counts, and exposes reads of unwritten
//   memory
//
// live   bytes of storage that were allocated since the watch began and are not freed yet
// peak   the maximum of `live` since the watch began or since ResetPeak()
//
// The thread_ functions return the same for the allocations of one thread (for example, of one rank
// where ranks are threads), no matter which thread frees the memory.
//
// Poison: memory is filled with 0xFF, which is a NaN in fp64, fp32, bf16 and fp16, when it is
// allocated and again just before it is freed. So a result that depends on unwritten memory is NaN,
// and so is one that depends on freed memory, if that memory is still mapped.
//
// The watch replaces the process's CPU allocator. Only one watch may exist at a time, and it must
// begin and end while no other thread creates tensors. Tensors that outlive the watch are freed
// normally; tensors that were allocated before the watch are not counted. Cost: 64 bytes and four
// atomic additions per allocation; with poison, also two writes of the memory.

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

  // The same numbers for the calling thread's allocations.
  int64_t thread_live_bytes() const;
  int64_t thread_peak_bytes() const;
  void ResetThreadPeak() const;
};

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_ALLOCATOR_WATCH_H_
