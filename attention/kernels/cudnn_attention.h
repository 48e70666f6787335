#ifndef MOONRING_ATTENTION_KERNELS_CUDNN_ATTENTION_H_
#define MOONRING_ATTENTION_KERNELS_CUDNN_ATTENTION_H_

// Attention of one tile by cuDNN's fused kernel, at::_scaled_dot_product_cudnn_attention, on dense
// tensors [B, H, S, D]. The kernel's ragged (varlen) form is never used, since its backward is
// wrong in LibTorch 2.11 (pytorch/pytorch#186142).
//
//   inputs   bf16, fp16; head dims that are multiples of 8 up to 256 (128 on GPUs other than
//            Hopper); at least two queries and two keys; square causal tiles (the mask is aligned
//            to the top left), and full tiles unless keys % 128 = 64, where the kernel's backward
//            is wrong (pytorch#196678). Not used where torch's deterministic algorithms are on
//   results  out in q's dtype; lse fp32 [B, H, Sq, 1] (three dims before LibTorch 2.9)
//   global   the backward accepts the out and lse of a softmax over more keys than this tile has;
//            PyTorch's context parallelism relies on this too
//
// The kernel supports grouped-query attention. LibTorch caches cuDNN's execution plans by shape. A
// new length costs the building of a plan, so cuDNN is used for few and long documents.
//
// These conventions were tested on an H100 (tests/attention/cuda_conformance_test.cc). A CPU
// replacement for tests follows the same conventions (tests/attention/cuda_stand_ins.h).
// kernel_timing.h compares the kernel's results with flash attention's before a run uses it.

#include <ATen/core/Tensor.h>

#include "attention/kernels/block_attention.h"
#include "attention/kernels/tile.h"

namespace moonring::attention {

// Whether cuDNN supports tiles of this kind and size. A square band (tile.h) is treated as a causal
// tile where it has no window, or a window of at least `keys`.
bool CudnnTakes(at::ScalarType type, int64_t head_dim, TileKind kind, int64_t window,
                int64_t queries, int64_t keys);

// For tiles that CudnnTakes accepts, with rows aligned as cuDNN requires (strides are multiples of
// 8 elements, the last one is 1). Shapes and precision: block_attention.h; out and gradients are in
// the inputs' dtype.
PartialAttention CudnnForward(const Tile& tile);
TileGradients CudnnBackward(const Tile& tile, const at::Tensor& dout_MHD, const at::Tensor& out_MHD,
                            const at::Tensor& lse_MH);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_CUDNN_ATTENTION_H_
