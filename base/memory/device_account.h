#ifndef MOONRING_BASE_MEMORY_DEVICE_ACCOUNT_H_
#define MOONRING_BASE_MEMORY_DEVICE_ACCOUNT_H_

// What each live byte of a GPU's tensors is for: memory_account.h's parts, of the blocks of
// LibTorch's caching allocator for devices. It has no header before a block to write a part into,
// as the host's has; but it tells an observer of each block that it gives and takes back (c10's
// memory reporting, which the profiler uses too, so one of the two at a time).
//
// Watched is the thread that calls WatchDevice, and the backward passes that it starts. What
// another thread frees is found out when its address is given again. What was there before is not
// counted. Cost: a lock and a look-up in a table of live blocks for each.

#include <ATen/core/Tensor.h>

#include "base/memory/memory_account.h"

namespace moonring::base {

// From here on, and again from nothing. Throws nothing; does nothing where there is no device.
void WatchDevice();

MemoryByPart LiveDeviceMemory();
// Of the moment since WatchDevice when the total was greatest. Zeros where nobody watches.
MemoryByPart PeakDeviceMemory();

// As CountAs, for a tensor on a device whose block was seen; else nothing.
void CountOnDevice(MemoryPart part, const at::Tensor& tensor);

}  // namespace moonring::base

#endif  // MOONRING_BASE_MEMORY_DEVICE_ACCOUNT_H_
