#ifndef MOONRING_TRAINER_REPORTS_MEMORY_WATCH_H_
#define MOONRING_TRAINER_REPORTS_MEMORY_WATCH_H_

// Explains a process's peak memory: compares the kernel's number with the sum of known uses.
//
//   kernel     RssAnon + RssShmem: resident pages that no file backs
//   explained  tensors by component (base/memory/memory_account.h)
//            + data: other malloc allocations (libraries, data sets, tokenizers)
//            + held: free memory that malloc keeps
//            + copies: checkpoint files that wait for the disk (base/files/held_files.h)
//            + scripts: LuaJIT's heap, which is mapped separately
//
// `kernel` and `explained` are relative to their values after start-up (the level). `explained` is
// measured independently of `kernel`. It does not include stacks, LuaJIT's machine code, malloc's
// own tables and buffers mapped by libraries. It wrongly includes allocated pages that were never
// touched.
//
// A thread takes a sample every few milliseconds. It keeps the maximum of `kernel`. An allocator
// that keeps freed memory makes many samples look alike to the kernel; therefore, among the samples
// within 2 % of the maximum, the one with the most memory in use is kept as the moment of the peak.
// A peak between two samples is underestimated by what can be touched in that time, at most about
// 10 MB. Cost: about 50 microseconds per sample, on a background thread.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "base/memory/memory_account.h"

namespace moonring::trainer {

struct MemorySample {
  base::MemoryByPart tensors;
  int64_t data = 0, held = 0, scripts = 0, copies = 0;
  int64_t kernel = 0;  // 0 if the kernel does not report it

  int64_t used() const { return tensors.total() + data + scripts + copies; }
  int64_t explained() const { return used() + held; }
  MemorySample Above(const MemorySample& level) const;
};

// `scripts`: bytes of LuaJIT's heap.
MemorySample ReadMemory(int64_t scripts);

class MemoryWatch {
 public:
  // `level`: the result of ReadMemory after start-up.
  explicit MemoryWatch(const MemorySample& level,
                       std::chrono::microseconds interval = std::chrono::milliseconds(5));
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  struct Peak {
    MemorySample moment;  // relative to the level
    int64_t kernel = 0;   // maximum, relative to the level
  };
  // `scripts`: present size of LuaJIT's heap, which only its own thread can query; it is used as
  // the size at the peak.
  Peak peak(int64_t scripts) const;

  // The maximum of `kernel` since the last call, in absolute terms.
  int64_t TakeKernelPeak();

  const MemorySample& level() const { return level_; }

  // Number of completed samples. When two more have completed, the second one began after the call
  // and covers the present state.
  int64_t looks() const { return looks_; }

 private:
  void Look();

  const MemorySample level_;
  const std::chrono::microseconds interval_;
  mutable std::mutex mutex_;
  std::condition_variable ends_;
  std::atomic<int64_t> looks_ = 0;
  bool ended_ = false;
  MemorySample moment_;  // absolute, not relative to the level
  int64_t kernel_peak_ = 0, step_peak_ = 0;
  std::thread thread_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_REPORTS_MEMORY_WATCH_H_
