#include "trainer/reports/device_memory.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>

#ifdef MOONRING_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

namespace moonring::trainer {
namespace {

// CUDA's caching allocator; null without CUDA or before its first allocation.
c10::DeviceAllocator* AllocatorInUse() {
  if (!at::detail::getCUDAHooks().hasCUDA()) return nullptr;
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::kCUDA));
  return allocator != nullptr && allocator->initialized() ? allocator : nullptr;
}

c10::DeviceIndex CurrentDevice() {
  return static_cast<c10::DeviceIndex>(at::detail::getCUDAHooks().getCurrentDevice());
}

}  // namespace

DeviceMemory ReadDeviceMemory() {
  c10::DeviceAllocator* const allocator = AllocatorInUse();
  if (allocator == nullptr) return {};
  const c10::CachingDeviceAllocator::DeviceStats stats = allocator->getDeviceStats(CurrentDevice());
  constexpr auto kWhole = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {stats.allocated_bytes[kWhole].peak, stats.reserved_bytes[kWhole].peak,
          stats.allocated_bytes[kWhole].current, stats.reserved_bytes[kWhole].current};
}

void ResetDevicePeaks() {
  c10::DeviceAllocator* const allocator = AllocatorInUse();
  if (allocator != nullptr) allocator->resetPeakStats(CurrentDevice());
}

std::optional<Gpu> ReadGpu() {
#ifdef MOONRING_CUDA
  if (at::detail::getCUDAHooks().deviceCount() == 0) return std::nullopt;
  const cudaDeviceProp& properties = *at::cuda::getCurrentDeviceProperties();
  int driver = 0, runtime = 0;
  C10_CUDA_CHECK(cudaDriverGetVersion(&driver));
  C10_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  return Gpu{properties.name, properties.major, properties.minor, properties.multiProcessorCount,
             driver,          runtime};
#else
  return std::nullopt;
#endif
}

}  // namespace moonring::trainer
