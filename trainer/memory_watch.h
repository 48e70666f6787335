#ifndef MOONRING_TRAINER_MEMORY_WATCH_H_
#define MOONRING_TRAINER_MEMORY_WATCH_H_

// What a process's memory is for at its peak, beside what the kernel says of it.
//
//   kernel     RssAnon + RssShmem: resident pages that no file backs
//   explained  tensors by part (base/memory/memory_account.h)
//            + data: the rest of what malloc gave, to libraries, data sets, tokenizers
//            + held: what malloc keeps free
//            + copies: files of a checkpoint that wait for the disk (base/files/held_files.h)
//            + scripts: LuaJIT's heap, which maps its own
//
// both above the level after start-up. Nothing in `explained` is derived from `kernel`. What it
// leaves out: stacks, LuaJIT's machine code, malloc's own tables, buffers that a library maps
// itself. What it takes in wrongly: pages that malloc gave and nobody has touched.
//
// The watch is a thread that looks every few milliseconds. Of all samples it keeps the greatest
// `kernel`, and as the moment of the peak the sample with the most in use among those within 2 % of
// it: an allocator that keeps what was freed makes many moments alike to the kernel. A peak between
// two samples is seen too small by what was touched in so short a time, at most some 10 MB. Cost:
// some 50 microseconds a sample, on a thread of its own.

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
  int64_t kernel = 0;  // 0 where the kernel does not say

  int64_t used() const { return tensors.total() + data + scripts + copies; }
  int64_t explained() const { return used() + held; }
  MemorySample Above(const MemorySample& level) const;
};

// `scripts`: LuaJIT's heap.
MemorySample ReadMemory(int64_t scripts);

class MemoryWatch {
 public:
  // `level`: what ReadMemory said after start-up.
  explicit MemoryWatch(const MemorySample& level,
                       std::chrono::microseconds interval = std::chrono::milliseconds(5));
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  struct Peak {
    MemorySample moment;  // above the level
    int64_t kernel = 0;   // the greatest, above the level
  };
  // `scripts`: LuaJIT's heap now, which only its own thread may ask; it stands for that of the
  // peak.
  Peak peak(int64_t scripts) const;

  // The greatest `kernel` since the last call, not above the level but whole.
  int64_t TakeKernelPeak();

  const MemorySample& level() const { return level_; }

  // Looks that are over. What lasts while two more of them end was seen whole by the second.
  int64_t looks() const { return looks_; }

 private:
  void Look();

  const MemorySample level_;
  const std::chrono::microseconds interval_;
  mutable std::mutex mutex_;
  std::condition_variable ends_;
  std::atomic<int64_t> looks_ = 0;
  bool ended_ = false;
  MemorySample moment_;  // not above the level
  int64_t kernel_peak_ = 0, step_peak_ = 0;
  std::thread thread_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_MEMORY_WATCH_H_
