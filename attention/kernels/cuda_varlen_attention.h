#ifndef MOONRING_ATTENTION_KERNELS_CUDA_VARLEN_ATTENTION_H_
#define MOONRING_ATTENTION_KERNELS_CUDA_VARLEN_ATTENTION_H_

// VarlenAttention (varlen_attention.h) by LibTorch's fused kernels for GPUs, with O(M D) memory
// beyond the results for M rows of head dim D. Inputs that these kernels do not support are
// computed with materialized scores, in pieces of bounded size. The kernel depends on the dtype:
//
//   bf16, fp16   flash attention (FA2), head dims up to 256; long tiles by cuDNN where KernelChoice
//                selects it (kernel_choice.h, cudnn_attention.h). Both support grouped-query
//                attention. Out and gradients are in the inputs' dtype, and the backward reads the
//                global out rounded to that dtype; lse is fp32. Tiles of the kind band (tile.h) use
//                flash attention's own masks, which are aligned to the bottom right corner
//   fp32         memory-efficient attention, whose products are sums of three TF32 products where
//                there are tensor cores. kv heads are repeated for their query heads and the
//                gradients summed. Its lse is padded: [tiles, H, rows of the longest tile]
//   16-bit head dims above 256, and a softcap in 16 bits   materialized scores between 16-bit
//                products, in strips (strip_varlen_attention.h). Out and gradients are in fp32;
//                bands as in flash attention
//   fp64, and a softcap in fp32   materialized scores, in AccumulateType
//                (explicit_varlen_attention.h)
//
// Head dims are padded with zeros to a multiple of 8; the softmax scale does not change. Where keys
// and values have different head dims, the smaller one is padded to the larger for flash attention
// and cuDNN; memory-efficient attention accepts both. In a tile at a window's edge (tile.h), query
// i attends to keys j >= i. For such a tile flash attention gets a window of 0 to the left and no
// bound to the right. For memory-efficient attention the tile's rows are reversed, which makes its
// mask causal. Both kernels accumulate dq by atomics: its last bits differ between runs, unless
// LibTorch's deterministic algorithms are on. fp16 and bf16 need compute capability 8.0; LibTorch
// reports an error below that.
//
// Tested on a GPU by tests/attention/cuda_conformance_test.cc (docs/gpu.md), and on the CPU, with
// stand-ins for the kernels, by tests/attention/varlen_test.cc.

#include <memory>

#include "attention/kernels/kernel_choice.h"
#include "attention/kernels/varlen_attention.h"

namespace moonring::attention {

class CudaVarlenAttention final : public VarlenAttention {
 public:
  // `falls_back`: true: flash attention computes the calls that cuDNN refuses; false: cuDNN's error
  // is thrown.
  explicit CudaVarlenAttention(KernelChoice choice = {}, bool falls_back = true);

  absl::string_view name() const override { return "cuda"; }
  // True where the kernel is flash attention or strips.
  bool TakesBands(at::ScalarType type, int64_t head_dim, const ScoreFunction& score) const override;

 private:
  PartialAttention RunForward(const VarlenTiles& tiles) const override;
  TileGradients RunBackward(const VarlenTiles& tiles, const at::Tensor& dout_MHD,
                            const at::Tensor& out_MHD, const at::Tensor& lse_MH) const override;

  KernelChoice choice_;
  bool falls_back_;
  std::unique_ptr<const VarlenAttention> strips_, explicit_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_CUDA_VARLEN_ATTENTION_H_
