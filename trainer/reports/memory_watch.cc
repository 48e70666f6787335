#include "trainer/reports/memory_watch.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/files/held_files.h"
#include "base/memory/heap.h"
#include "base/status/torch_status.h"
#include "trainer/reports/resources.h"

namespace moonring::trainer {
namespace {

// Samples whose `kernel` is at least this fraction of the maximum belong to the same peak.
constexpr double kSamePeak = 0.98;

}  // namespace

MemorySample MemorySample::Above(const MemorySample& level) const {
  MemorySample above = *this;
  for (int i = 0; i < base::kMemoryParts; ++i) above.tensors.bytes[i] -= level.tensors.bytes[i];
  above.tensors.mapped -= level.tensors.mapped;
  above.data -= level.data;
  above.held -= level.held;
  above.scripts -= level.scripts;
  above.copies -= level.copies;
  above.kernel -= level.kernel;
  return above;
}

MemorySample ReadMemory(int64_t scripts) {
  MemorySample sample;
  sample.scripts = scripts;
  // The tensor counts and the heap are read one after the other. Both are read again if tensors
  // were allocated or freed in between.
  constexpr int64_t kFew = int64_t{1} << 20;
  for (int attempt = 0; attempt < 3; ++attempt) {
    sample.tensors = base::LiveMemory();
    const base::HeapBytes heap = base::ReadHeap();
    sample.data = heap.used - (sample.tensors.total() - sample.tensors.mapped);
    sample.held = heap.held;
    sample.copies = base::HeldMemory();
    sample.kernel = AnonymousBytes();
    if (std::abs(base::LiveMemory().total() - sample.tensors.total()) < kFew) break;
  }
  return sample;
}

MemoryWatch::MemoryWatch(const MemorySample& level, std::chrono::microseconds interval)
    : level_(level), interval_(interval) {
  Look();
  thread_ = std::thread([this] {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!ends_.wait_for(lock, interval_, [this] { return ended_; })) {
      lock.unlock();
      (void)base::TryTorch([this] { Look(); });  // a failed sample is skipped
      lock.lock();
    }
  });
}

MemoryWatch::~MemoryWatch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  ends_.notify_one();
  thread_.join();
}

void MemoryWatch::Look() {
  const MemorySample now = ReadMemory(0);
  const std::lock_guard<std::mutex> lock(mutex_);
  kernel_peak_ = std::max(kernel_peak_, now.kernel);
  step_peak_ = std::max(step_peak_, now.kernel);
  const auto same = [this](const MemorySample& sample) {
    return static_cast<double>(sample.kernel) >= kSamePeak * static_cast<double>(kernel_peak_);
  };
  if (same(now) && (!same(moment_) || now.used() > moment_.used())) moment_ = now;
  ++looks_;
}

MemoryWatch::Peak MemoryWatch::peak(int64_t scripts) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  MemorySample moment = moment_;
  moment.scripts = scripts;
  return {moment.Above(level_), kernel_peak_ - level_.kernel};
}

int64_t MemoryWatch::TakeKernelPeak() {
  Look();
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(step_peak_, 0);
}

}  // namespace moonring::trainer
