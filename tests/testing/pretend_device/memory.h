#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_MEMORY_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_MEMORY_H_

// Memory of the pretend device: one anonymous file, mapped twice. Tensors hold addresses of the
// first mapping, which nobody may read or write; kernels use the same bytes through the second.
// A host that follows a device's pointer ends by SIGSEGV, with a line that names the tensor.
//
// PRETEND_DEVICE_MEMORY in the environment bounds it in bytes (default 16 GiB): beyond that an
// allocation throws LibTorch's OutOfMemoryError. Sizes are rounded up to 512 bytes, as CUDA's
// caching allocator does, and new memory is full of NaN (of zeros, where LargeIsLeftOut(): memory
// that nobody touches takes no room, so that the device may be larger than the machine).

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

// Of the current device, on its current stream. 0 bytes: no block, a null pointer.
c10::DataPtr Allocate(size_t bytes);

// Null for a storage without memory. Refuses a storage that is not this device's: a CPU tensor that
// says it is a GPU's, or memory that something else made.
Block* BlockOf(const c10::Storage& storage);

// The same byte as a kernel sees it.
void* ForKernels(void* of_device);
bool OfDevice(const void* address);

size_t MemoryLimit();

// PRETEND_DEVICE_PRODUCTS=counted: work on a tensor of more than one floating-point number is
// counted and not done (left_out.h).
bool LargeIsLeftOut();

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_MEMORY_H_
