#include "trainer/device_memory.h"

#ifdef MOONRING_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace moonring::trainer {

DeviceMemory ReadDeviceMemory() {
#ifdef MOONRING_CUDA
  auto* const allocator = c10::cuda::CUDACachingAllocator::get();
  if (allocator != nullptr && allocator->initialized()) {
    const auto stats = allocator->getDeviceStats(c10::cuda::current_device());
    const auto whole = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return {stats.allocated_bytes[whole].peak, stats.reserved_bytes[whole].peak};
  }
#endif
  return {};
}

}  // namespace moonring::trainer
