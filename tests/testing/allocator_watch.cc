#include "tests/testing/allocator_watch.h"

#include <atomic>
#include <cstring>

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

namespace moonring::testing {
namespace {

// LibTorch replaces an allocator only by one of at least equal priority; its own allocators have 0.
constexpr uint8_t kPriority = 200;

struct Count {
  std::atomic<int64_t> live = 0, peak = 0;

  void Add(int64_t bytes) {
    const int64_t now = live += bytes;
    for (int64_t highest = peak.load();
         highest < now && !peak.compare_exchange_weak(highest, now);) {
    }
  }
};

// Stored in front of each block of memory. Its size is LibTorch's alignment, so the block stays
// aligned.
struct alignas(c10::gAlignment) Header {
  int64_t bytes;
  int64_t watch;  // its number; memory of an earlier one is not this one's
  Count* thread;  // who allocated it
  bool poison;
};
constexpr unsigned char kNan = 0xFF;

std::atomic<int64_t> watches_begun = 0;
std::atomic<int64_t> current = 0;  // the number of the watch that lives; 0: none
std::atomic<bool> poisons = false;
Count all;
c10::Allocator* replaced = nullptr;

// Returns the calling thread's count. Memory may outlive the thread, so the count is never deleted.
Count& OfThread() {
  thread_local Count* const count = new Count;
  return *count;
}

void Free(void* memory) {
  if (memory == nullptr) return;
  Header* header = static_cast<Header*>(memory) - 1;
  if (header->poison) std::memset(memory, kNan, header->bytes);
  if (header->watch != 0 && header->watch == current.load()) {
    all.live -= header->bytes;
    header->thread->live -= header->bytes;
  }
  c10::free_cpu(header);
}

class WatchedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device host(c10::kCPU);
    if (bytes == 0) return {nullptr, nullptr, Free, host};
    auto* header = static_cast<Header*>(c10::alloc_cpu(sizeof(Header) + bytes));
    *header = {static_cast<int64_t>(bytes), current.load(), &OfThread(), poisons.load()};
    void* memory = header + 1;
    if (header->poison) std::memset(memory, kNan, bytes);
    if (header->watch != 0) {
      all.Add(header->bytes);
      header->thread->Add(header->bytes);
    }
    return {memory, memory, Free, host};
  }
  c10::DeleterFnPtr raw_deleter() const override { return Free; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

// Storages keep a pointer to their allocator and may resize through it after the watch has ended,
// so the allocator is never destroyed.
c10::Allocator* TheAllocator() {
  static auto* const allocator = new WatchedAllocator;
  return allocator;
}

}  // namespace

AllocatorWatch::AllocatorWatch() : AllocatorWatch(Options{}) {}

AllocatorWatch::AllocatorWatch(const Options& options) {
  TORCH_CHECK(current.load() == 0, "another AllocatorWatch lives");
  all.live = all.peak = 0;
  poisons = options.poison;
  current = ++watches_begun;
  replaced = c10::GetCPUAllocator();
  c10::SetCPUAllocator(TheAllocator(), kPriority);
}

AllocatorWatch::~AllocatorWatch() {
  c10::SetCPUAllocator(replaced, kPriority);
  current = 0;
  poisons = false;
}

int64_t AllocatorWatch::live_bytes() const { return all.live; }
int64_t AllocatorWatch::peak_bytes() const { return all.peak; }
void AllocatorWatch::ResetPeak() const { all.peak = all.live.load(); }

int64_t AllocatorWatch::thread_live_bytes() const { return OfThread().live; }
int64_t AllocatorWatch::thread_peak_bytes() const { return OfThread().peak; }
void AllocatorWatch::ResetThreadPeak() const { OfThread().peak = OfThread().live.load(); }

}  // namespace moonring::testing
