#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_MEMORY_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_MEMORY_H_

// Memory of the pretend device: one anonymous file that is mapped twice. Tensors have addresses in
// the first mapping, which has no access rights; kernels access the same bytes through the second
// one. If the host dereferences a device pointer, the process ends by SIGSEGV with a line that
// names the tensor.
//
// PRETEND_DEVICE_MEMORY in the environment is the size in bytes (default 16 GiB); an allocation
// beyond it throws LibTorch's OutOfMemoryError. Sizes are rounded up to 512 bytes, as CUDA's
// caching allocator does. New memory is filled with NaN, or with zeros under LargeIsLeftOut():
// memory that nobody touches takes no physical memory, so the device may be larger than the
// machine.

#include <cstddef>
#include <cstdint>
#include <string>

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include "tests/testing/pretend_device/timeline.h"

namespace moonring::pretend {

struct Block {
  std::byte* address = nullptr;  // of the device
  size_t bytes = 0;              // rounded
  c10::DeviceIndex device = 0;
  std::string what;  // dtype and sizes, where a tensor's operator knows them
  Uses uses;         // the timeline's
};

// Allocates memory of the current device, on its current stream. For 0 bytes, returns a null
// pointer.
c10::DataPtr Allocate(size_t bytes);

// Returns the memory block of a storage; null for a storage without memory. Rejects a storage that
// does not belong to this device: a CPU tensor that claims to be on a GPU, or memory from another
// allocator.
Block* BlockOf(const c10::Storage& storage);

// Returns the address at which a kernel can access the byte at the device address `of_device`.
void* ForKernels(void* of_device);
bool OfDevice(const void* address);

size_t MemoryLimit();

// Returns whether PRETEND_DEVICE_PRODUCTS=counted is set: work on a tensor of more than one
// floating-point number is counted and skipped (left_out.h).
bool LargeIsLeftOut();

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_MEMORY_H_
