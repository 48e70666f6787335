#ifndef MOONRING_TESTS_ATTENTION_CUDA_STAND_INS_H_
#define MOONRING_TESTS_ATTENTION_CUDA_STAND_INS_H_

// LibTorch's fused attention kernels for GPUs, on the CPU: flash and memory-efficient attention,
// varlen, and cuDNN's, dense; forward and backward.
//
// Attention by its definition in fp64, under the conventions of the kernels: what they take, refuse
// or believe unchecked (here refused too), how masks align, the shape of lse and its padding, what
// they round to. Thus all that is around the kernels runs as it does on a GPU, the calls included.
// That the kernels themselves are so is from LibTorch's source, and not shown here.

#include <torch/library.h>

namespace moonring::attention {

// While the result lives, these are what the operators do on tensors of the CPU.
torch::Library CudaStandIns();

}  // namespace moonring::attention

#endif  // MOONRING_TESTS_ATTENTION_CUDA_STAND_INS_H_
