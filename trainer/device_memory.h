#ifndef MOONRING_TRAINER_DEVICE_MEMORY_H_
#define MOONRING_TRAINER_DEVICE_MEMORY_H_

// The current GPU: what LibTorch's caching allocator took of it, and what it is.

#include <cstdint>
#include <optional>
#include <string>

namespace moonring::trainer {

// Zeros in a build without CUDA, and where no GPU was used.
struct DeviceMemory {
  int64_t allocated_peak = 0;           // by tensors, since the last reset
  int64_t reserved_peak = 0;            // and what is kept for further ones
  int64_t allocated = 0, reserved = 0;  // the same now
};

DeviceMemory ReadDeviceMemory();

// From here on a peak is of what follows; what is there now counts.
void ResetDevicePeaks();

struct Gpu {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t driver = 0, runtime = 0;  // CUDA's versions, 13000 for 13.0
};

// nullopt in a build without CUDA, and without a GPU.
std::optional<Gpu> ReadGpu();

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_DEVICE_MEMORY_H_
