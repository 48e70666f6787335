#ifndef MOONRING_TESTS_ATTENTION_CUDA_STAND_INS_H_
#define MOONRING_TESTS_ATTENTION_CUDA_STAND_INS_H_

// CPU implementations of LibTorch's fused GPU attention kernels (varlen flash attention,
// memory-efficient attention and dense cuDNN attention, each forward and backward), so that all
// code around these kernels runs without a GPU.
//
// They compute attention from its definition in fp64 and follow the kernels' conventions: which
// arguments are accepted, how masks are aligned, the shape and padding of lse, and how results are
// rounded. They also reject invalid arguments that the real kernels do not check. The conventions
// are taken from LibTorch's source; these tests do not prove that the real kernels
// follow them.

#include <torch/library.h>

namespace moonring::attention {

// While the returned library is alive, the operators use these stand-ins for CPU tensors.
torch::Library CudaStandIns();

}  // namespace moonring::attention

#endif  // MOONRING_TESTS_ATTENTION_CUDA_STAND_INS_H_
