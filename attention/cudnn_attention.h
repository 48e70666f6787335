#ifndef MOONRING_ATTENTION_CUDNN_ATTENTION_H_
#define MOONRING_ATTENTION_CUDNN_ATTENTION_H_

// One tile by cuDNN's fused attention, at::_scaled_dot_product_cudnn_attention: dense, [B, H, S,
// D]. Never its ragged form, whose backward is wrong in LibTorch 2.11 (pytorch/pytorch#186142).
//
//   takes   bf16, fp16; head dims that are multiples of 8 up to 256 (elsewhere than on Hopper it
//           refuses more than 128); full tiles, and causal ones:
//           its causal mask counts from the top left, so these are square. Several keys: one is
//           refused. Not where LibTorch is told to be deterministic
//   gives   out in q's dtype; lse fp32 [B, H, Sq, 1] (of three dims before LibTorch 2.9)
//   global  the backward takes out and lse of more keys than the tile's, as torch's own context
//           parallelism relies on
//
// Query heads share kv heads in the kernel. Its plans are kept by LibTorch for each shape: a new
// length costs a plan, which is why it is for few and long documents.
//
// An H100's kernel has these conventions (docs/gpu.md), and so has a stand-in on the CPU,
// tests/attention/cuda_stand_ins.cc; kernel_timing.h holds the kernel against flash attention
// before a run takes it.

#include <ATen/core/Tensor.h>

#include "attention/block_attention.h"
#include "attention/tile.h"

namespace moonring::attention {

// Whether it takes tiles of that kind and size. A band without a window whose sides are equal is
// causal.
bool CudnnTakes(at::ScalarType type, int64_t head_dim, TileKind kind, int64_t window,
                int64_t queries, int64_t keys);

// Of tiles that it takes, rows in its alignment (multiples of 8 elements, last stride 1).
// Shapes and precision: block_attention.h; out and gradients in the inputs' dtype.
PartialAttention CudnnForward(const Tile& tile);
TileGradients CudnnBackward(const Tile& tile, const at::Tensor& dout_MHD, const at::Tensor& out_MHD,
                            const at::Tensor& lse_MH);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_CUDNN_ATTENTION_H_
