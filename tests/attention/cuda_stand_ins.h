#ifndef MOONRING_TESTS_ATTENTION_CUDA_STAND_INS_H_
#define MOONRING_TESTS_ATTENTION_CUDA_STAND_INS_H_

// CPU stand-ins for LibTorch's fused GPU attention kernels: varlen flash and memory-efficient
// attention and dense cuDNN attention, each forward and backward.
//
// The stand-ins compute attention from its definition in fp64 and follow the kernels' conventions:
// which arguments they accept or refuse, how masks are aligned, the shape and padding of lse, and
// how results are rounded. An argument that a real kernel trusts unchecked is checked and refused
// here. So all code around the kernels, including the calls, runs as it does on a GPU. The
// conventions are taken from LibTorch's source; these tests do not prove that the real kernels
// follow them.

#include <torch/library.h>

namespace moonring::attention {

// While the returned library is alive, the operators use these stand-ins for CPU tensors.
torch::Library CudaStandIns();

}  // namespace moonring::attention

#endif  // MOONRING_TESTS_ATTENTION_CUDA_STAND_INS_H_
