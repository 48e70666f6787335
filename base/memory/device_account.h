#ifndef MOONRING_BASE_MEMORY_DEVICE_ACCOUNT_H_
#define MOONRING_BASE_MEMORY_DEVICE_ACCOUNT_H_

// Accounts for the live bytes of a GPU's tensors by category, as memory_account.h does on the host.
// On the host, a header before each block has the block's category; blocks of LibTorch's caching
// device allocator have no such header. But this allocator reports each allocated and freed block
// to an observer (c10's memory reporting, which the profiler uses too, so only one of the two can
// be active).
//
// The account observes the thread that calls WatchDevice, and the backward passes that this thread
// starts. If another thread frees a block, the account notices it only when the block's address is
// allocated again. Blocks allocated before WatchDevice are not counted. Cost: a lock and a look-up
// in a table of live blocks for each event.

#include <ATen/core/Tensor.h>

#include "base/memory/memory_account.h"

namespace moonring::base {

// Starts counting, from zero. Does nothing without a device; throws nothing.
void WatchDevice();

MemoryByPart LiveDeviceMemory();
// Memory by category at the moment since WatchDevice when the total was largest. Zeros if
// WatchDevice was not called.
MemoryByPart PeakDeviceMemory();

// Like CountAs, for a tensor on a device whose block was observed; otherwise does nothing.
void CountOnDevice(MemoryPart part, const at::Tensor& tensor);

}  // namespace moonring::base

#endif  // MOONRING_BASE_MEMORY_DEVICE_ACCOUNT_H_
