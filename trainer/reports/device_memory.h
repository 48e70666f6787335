#ifndef MOONRING_TRAINER_REPORTS_DEVICE_MEMORY_H_
#define MOONRING_TRAINER_REPORTS_DEVICE_MEMORY_H_

// Memory that LibTorch's caching allocator uses on the current GPU, and the GPU's properties.

#include <cstdint>
#include <optional>
#include <string>

namespace moonring::trainer {

// Memory in bytes. All fields are 0 in a build without CUDA, or if no GPU was used.
struct DeviceMemory {
  int64_t allocated_peak = 0;           // in tensors, since the last reset
  int64_t reserved_peak = 0;            // including cached blocks
  int64_t allocated = 0, reserved = 0;  // current values
};

DeviceMemory ReadDeviceMemory();

// Resets the peaks to the current values.
void ResetDevicePeaks();

struct Gpu {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t driver = 0, runtime = 0;  // CUDA versions, 13000 for 13.0
};

// The current GPU; nullopt without a GPU or in a build without CUDA.
std::optional<Gpu> ReadGpu();

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_REPORTS_DEVICE_MEMORY_H_
