#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_DEVICE_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_DEVICE_H_

// A GPU that is none: a program that links this library, and no libtorch_cuda, has a device "cuda",
// whose tensors are is_cuda() and whose kernels are the CPU's. What such a program does on it, it
// does by the same branches as on a GPU, and what it may not do there fails here:
//
//   the host follows a device's pointer           SIGSEGV, and a line that names the tensor
//                                                 (memory.h)
//   a kernel is given a CPU tensor, or two devices'   an error, as LibTorch's own kernels give
//   work of two streams that is not ordered        an error, or the end of the process (timeline.h)
//   pinned memory is used before its copy is done   the end of the process (copies.cc)
//   collectives that ranks call in other orders    an error (nccl_group.cc)
//   uninitialised memory is used                   NaN
//
// It counts kernels, copies, waits of the host and bytes (counts.h). Fused attention is by
// stand-ins with the conventions of CUDA's (tests/attention/cuda_stand_ins.h).
//
// Not shown by it: what CUDA's own kernels compute, refuse and take, beyond what is imposed here
// from
// reading LibTorch 2.11's sources; time; and what stands in `#ifdef MOONRING_CUDA`
// (comm/nccl_group.cc, base/memory/pinned_memory.cc, kernels/products/grouped_products.cc,
// trainer/reports/device_memory.cc).
//
// Environment: PRETEND_DEVICES (how many; default 1), PRETEND_DEVICE_MEMORY (bytes of each),
// PRETEND_DEVICE_PRODUCTS (left_out.h), PRETEND_DEVICE_REPORT (counts.h).

#include "tests/testing/pretend_device/counts.h"

namespace moonring::pretend {

bool IsPinned(const void* address);

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_DEVICE_H_
