#ifndef MOONRING_TESTS_TESTING_PRETEND_DEVICE_DEVICE_H_
#define MOONRING_TESTS_TESTING_PRETEND_DEVICE_DEVICE_H_

// A simulated GPU. A program that links this library and not libtorch_cuda has a device "cuda"
// whose tensors are is_cuda() and whose kernels run on the CPU. The program takes the same branches
// as on a GPU. Errors that a GPU would cause, or hide, fail here:
//
//   the host dereferences a device pointer        SIGSEGV, and a line that names the tensor
//                                                 (memory.h)
//   a kernel gets a CPU tensor, or tensors of     an error, as from LibTorch's own kernels
//   two devices
//   work of two streams that is not ordered       an error, or the end of the process (timeline.h)
//   pinned memory is used before its copy is done the end of the process (copies.cc)
//   ranks call collectives in different orders    an error (nccl_group.cc)
//   uninitialized memory is used                  NaN
//
// The device counts kernels, copies, waits of the host and bytes (counts.h). Fused attention is
// computed on the CPU with the conventions of the CUDA kernels (tests/attention/cuda_stand_ins.h).
//
// The device does not reveal: what the CUDA kernels compute, reject and accept, except for the
// rules that are copied from LibTorch 2.11's sources; time; and the code in `#ifdef MOONRING_CUDA`
// (comm/nccl_group.cc, base/memory/pinned_memory.cc, kernels/products/grouped_products.cc,
// trainer/reports/device_memory.cc).
//
// Environment: PRETEND_DEVICES (number of devices; default 1), PRETEND_DEVICE_MEMORY (bytes of
// each), PRETEND_DEVICE_PRODUCTS (left_out.h), PRETEND_DEVICE_REPORT (counts.h).

#include "tests/testing/pretend_device/counts.h"

namespace moonring::pretend {

bool IsPinned(const void* address);

}  // namespace moonring::pretend

#endif  // MOONRING_TESTS_TESTING_PRETEND_DEVICE_DEVICE_H_
