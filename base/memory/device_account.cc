#include "base/memory/device_account.h"

#include <memory>
#include <mutex>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "absl/container/flat_hash_map.h"

namespace moonring::base {
namespace {

class DeviceBook final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* block, int64_t bytes, size_t /*allocated*/, size_t /*reserved*/,
                         c10::Device device) override {
    if (device.is_cpu()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    Forget(block);
    if (bytes <= 0) return;
    blocks_[block] = {CurrentMemoryPart(), bytes};
    Change(CurrentMemoryPart(), bytes);
    if (live_.total() > peak_.total()) peak_ = live_;
  }
  bool memoryProfilingEnabled() const override { return true; }

  void CountAs(MemoryPart part, void* block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = blocks_.find(block);
    if (found == blocks_.end()) return;
    Change(found->second.part, -found->second.bytes);
    Change(part, found->second.bytes);
    found->second.part = part;
  }

  void Clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    blocks_.clear();
    live_ = peak_ = {};
  }
  MemoryByPart live() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return live_;
  }
  MemoryByPart peak() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return peak_;
  }

 private:
  struct Block {
    MemoryPart part;
    int64_t bytes;
  };

  void Change(MemoryPart part, int64_t bytes) { live_.bytes[static_cast<int>(part)] += bytes; }
  void Forget(void* block) {
    const auto found = blocks_.find(block);
    if (found == blocks_.end()) return;
    Change(found->second.part, -found->second.bytes);
    blocks_.erase(found);
  }

  std::mutex mutex_;
  absl::flat_hash_map<void*, Block> blocks_;
  MemoryByPart live_, peak_;
};

// Global, like the allocator; null until WatchDevice is called.
std::shared_ptr<DeviceBook>& TheBook() {
  static auto* const book = new std::shared_ptr<DeviceBook>;
  return *book;
}

constexpr auto kObserver = c10::DebugInfoKind::PROFILER_STATE;

}  // namespace

void WatchDevice() {
  if (TheBook() == nullptr) TheBook() = std::make_shared<DeviceBook>();
  TheBook()->Clear();
  TellOfDevices(&CountOnDevice);
  if (c10::ThreadLocalDebugInfo::get(kObserver) == nullptr) {
    c10::ThreadLocalDebugInfo::_push(kObserver, TheBook());
  }
}

MemoryByPart LiveDeviceMemory() {
  return TheBook() == nullptr ? MemoryByPart() : TheBook()->live();
}

MemoryByPart PeakDeviceMemory() {
  return TheBook() == nullptr ? MemoryByPart() : TheBook()->peak();
}

void CountOnDevice(MemoryPart part, const at::Tensor& tensor) {
  if (TheBook() == nullptr || !tensor.defined() || !tensor.has_storage()) return;
  TheBook()->CountAs(part, tensor.storage().data_ptr().get());
}

}  // namespace moonring::base
