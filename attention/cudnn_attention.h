#ifndef MOONRING_ATTENTION_CUDNN_ATTENTION_H_
#define MOONRING_ATTENTION_CUDNN_ATTENTION_H_

// One tile by cuDNN's fused attention, at::_scaled_dot_product_cudnn_attention: dense, [B, H, S,
// D]. Never its ragged form, whose backward is wrong in LibTorch 2.11 (pytorch/pytorch#186142).
//
//   takes   bf16, fp16; head dims that are multiples of 8 up to 256 (128 on GPUs other than
//   Hopper);
//           at least two queries and two keys; square causal tiles (the mask counts from the top
//           left), and full tiles unless keys % 128 = 64, where its backward is wrong
//           (pytorch#196678). Nothing under deterministic algorithms
//   gives   out in q's dtype; lse fp32 [B, H, Sq, 1] (of three dims before LibTorch 2.9)
//   global  the backward accepts the out and lse of the whole row, over more keys than this tile's;
//           torch's context parallelism relies on it too
//
// Query heads share kv heads in the kernel. Its plans are kept by LibTorch for each shape: a new
// length costs a plan, which is why it is for few and long documents.
//
// These conventions were tested on an H100 (tests/attention/cuda_conformance_test.cc); a stand-in
// on the CPU has them too (tests/attention/cuda_stand_ins.h), and kernel_timing.h compares the
// kernel with flash attention before a run uses it.

#include <ATen/core/Tensor.h>

#include "attention/block_attention.h"
#include "attention/tile.h"

namespace moonring::attention {

// Whether it takes tiles of that kind and size. A square band without a window, or whose window is
// no shorter than its keys, is causal.
bool CudnnTakes(at::ScalarType type, int64_t head_dim, TileKind kind, int64_t window,
                int64_t queries, int64_t keys);

// Of tiles that it takes, rows in its alignment (multiples of 8 elements, last stride 1).
// Shapes and precision: block_attention.h; out and gradients in the inputs' dtype.
PartialAttention CudnnForward(const Tile& tile);
TileGradients CudnnBackward(const Tile& tile, const at::Tensor& dout_MHD, const at::Tensor& out_MHD,
                            const at::Tensor& lse_MH);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_CUDNN_ATTENTION_H_
