#ifndef MOONRING_TRAINER_DEVICE_MEMORY_H_
#define MOONRING_TRAINER_DEVICE_MEMORY_H_

// What LibTorch's caching allocator took of the current GPU at most. It knows no parts: a GPU's memory is not in the account of
// comm/memory_account.h. Zeros in a build without CUDA, and where no GPU was used.

#include <cstdint>

namespace moonring::trainer {

struct DeviceMemory {
  int64_t allocated_peak = 0;  // by tensors
  int64_t reserved_peak = 0;   // and what is kept for further ones
};

DeviceMemory ReadDeviceMemory();

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_DEVICE_MEMORY_H_
