// Registers the pretend device (a simulated GPU) under LibTorch's CUDA key: device guard, hooks,
// and allocators of device memory and of pinned memory. It is linked (alwayslink) into programs
// without libtorch_cuda.

#include "tests/testing/pretend_device/device.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "tests/testing/pretend_device/counts.h"
#include "tests/testing/pretend_device/memory.h"
#include "tests/testing/pretend_device/timeline.h"

namespace moonring::pretend {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

DeviceIndex Devices() {
  const char* const text = std::getenv("PRETEND_DEVICES");
  return text == nullptr ? DeviceIndex{1} : static_cast<DeviceIndex>(std::atoi(text));
}

thread_local DeviceIndex current = 0;

thread_local std::map<DeviceIndex, c10::StreamId> current_stream;

struct PretendGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  Device exchangeDevice(Device device) const override {
    const Device old = getDevice();
    setDevice(device);
    return old;
  }
  Device getDevice() const override { return {c10::kCUDA, current}; }
  void setDevice(Device device) const override {
    TORCH_CHECK(device.is_cuda() && device.index() < deviceCount(), "no device ", device,
                ": the pretend device shows ", int{deviceCount()});
    if (device.index() >= 0) current = device.index();
  }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.index() >= 0) current = device.index();
  }
  DeviceIndex deviceCount() const noexcept override { return Devices(); }

  Stream Of(Device device, c10::StreamId id) const {
    return Stream(Stream::UNSAFE, Device(c10::kCUDA, device.index() < 0 ? current : device.index()),
                  id);
  }
  Stream getStream(Device device) const override {
    return Of(device, current_stream[device.index() < 0 ? current : device.index()]);
  }
  Stream getDefaultStream(Device device) const override { return Of(device, 0); }
  Stream getNewStream(Device device, int) const override {
    static std::atomic<c10::StreamId> made = 0;
    return Of(device, ++made);
  }
  Stream getStreamFromGlobalPool(Device device, bool) const override {
    return getNewStream(device, 0);
  }
  Stream exchangeStream(Stream stream) const override {
    const Stream old = getStream(stream.device());
    current_stream[stream.device_index()] = stream.id();
    return old;
  }
  bool queryStream(const Stream& stream) const override {
    HostWaits(stream);
    return true;
  }
  void synchronizeStream(const Stream& stream) const override {
    CountSynchronization("stream");
    HostWaits(stream);
  }
  void synchronizeDevice(DeviceIndex) const override {
    CountSynchronization("device");
    HostWaitsForAll();
  }

  void record(void** event, const Stream& stream, DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new Clock;
    *static_cast<Clock*>(*event) = Record(stream);
  }
  void block(void* event, const Stream& stream) const override {
    if (event != nullptr) WaitForEvent(stream, *static_cast<Clock*>(event));
  }
  bool queryEvent(void* event) const override {
    if (event != nullptr) HostWaits(*static_cast<Clock*>(event));
    return true;
  }
  void synchronizeEvent(void* event) const override {
    CountSynchronization("event");
    if (event != nullptr) HostWaits(*static_cast<Clock*>(event));
  }
  void destroyEvent(void* event, DeviceIndex) const noexcept override {
    delete static_cast<Clock*>(event);
  }
  double elapsedTime(void*, void*, DeviceIndex) const override { return 0; }

  void recordDataPtrOnStream(const c10::DataPtr& data, const Stream& stream) const override {
    c10::getDeviceAllocator(c10::kCUDA)->recordStream(data, stream);
  }
};

struct DeviceMemory final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override { return Allocate(bytes); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(ForKernels(to), ForKernels(const_cast<void*>(from)), bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr& data, Stream stream) override {
    auto* const block = static_cast<Block*>(data.get_context());
    if (block != nullptr) block->uses.recorded[KeyOf(stream)] = true;
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex) override {
    const Counts counts = CountsNow();
    c10::CachingDeviceAllocator::DeviceStats stats;
    for (auto* bytes : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes,
                        &stats.requested_bytes}) {
      (*bytes)[0].current = counts.held_bytes;
      (*bytes)[0].peak = counts.peak_bytes;
    }
    return stats;
  }
  void resetAccumulatedStats(DeviceIndex) override {}
  void resetPeakStats(DeviceIndex) override {}
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex) override {
    return {MemoryLimit() - static_cast<size_t>(CountsNow().held_bytes), MemoryLimit()};
  }
};

// Pinned memory is ordinary host memory whose addresses are registered with the device.
class PinnedMemory final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto* const address = new char[std::max<size_t>(bytes, 1)];
    const std::lock_guard<std::mutex> lock(mutex_);
    sizes_[address] = bytes;
    return {address, address, [](void* gone) { Pinned().Free(static_cast<char*>(gone)); },
            c10::kCPU};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool record_event(void*, void*, Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  bool Has(const void* address) {
    const auto* const byte = static_cast<const char*>(address);
    const std::lock_guard<std::mutex> lock(mutex_);
    auto found = sizes_.upper_bound(byte);
    if (found == sizes_.begin()) return false;
    --found;
    return byte < found->first + std::max<size_t>(found->second, 1);
  }

  static PinnedMemory& Pinned() {
    static auto* const pinned = new PinnedMemory;
    return *pinned;
  }

 private:
  void Free(char* address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    sizes_.erase(address);
    delete[] address;
  }

  std::mutex mutex_;
  std::map<const char*, size_t> sizes_;
};

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return Devices() > 0; }
  bool hasCUDA() const override { return Devices() > 0; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  int getNumGPUs() const override { return Devices(); }
  DeviceIndex deviceCount() const override { return Devices(); }
  DeviceIndex current_device() const override { return current; }
  DeviceIndex getCurrentDevice() const override { return current; }
  void setCurrentDevice(DeviceIndex device) const override {
    PretendGuard().setDevice({c10::kCUDA, device});
  }
  DeviceIndex exchangeDevice(DeviceIndex device) const override {
    return PretendGuard().exchangeDevice({c10::kCUDA, device}).index();
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override {
    return exchangeDevice(device);
  }
  bool isPinnedPtr(const void* data) const override { return PinnedMemory::Pinned().Has(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &PinnedMemory::Pinned(); }
  c10::Allocator* getCUDADeviceAllocator() const override { return c10::GetAllocator(c10::kCUDA); }
  Device getDeviceFromPtr(void*) const override { return {c10::kCUDA, current}; }
  void deviceSynchronize(DeviceIndex device) const override {
    PretendGuard().synchronizeDevice(device);
  }
};

const bool registered = [] {
  static DeviceMemory memory;
  static const PretendGuard guard;
  c10::SetAllocator(c10::kCUDA, &memory);
  c10::impl::registerDeviceGuard(c10::kCUDA, &guard);
  at::setHostAllocator(c10::kCUDA, &PinnedMemory::Pinned());
  at::CUDAHooksRegistry()->Register(
      "CUDAHooks", [](at::CUDAHooksArgs args) -> std::unique_ptr<at::CUDAHooksInterface> {
        return std::make_unique<Hooks>(args);
      });
  return true;
}();

}  // namespace

bool IsPinned(const void* address) { return PinnedMemory::Pinned().Has(address); }

}  // namespace moonring::pretend
