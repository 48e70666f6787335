#ifndef MOONRING_ATTENTION_CUDA_VARLEN_ATTENTION_H_
#define MOONRING_ATTENTION_CUDA_VARLEN_ATTENTION_H_

// VarlenAttention by LibTorch's fused kernels for GPUs, in O(M D) memory beyond the results; what
// they do not support is computed from explicit scores, in pieces of bounded size.
//
//   bf16, fp16   flash attention (FA2), head dims up to 256; long tiles by cuDNN where the choice
//                says so (kernel_choice.h, cudnn_attention.h). Query heads share kv heads in the
//                kernel. Out and gradients are in the inputs' dtype, and the backward takes the
//                global out rounded to it; lse is fp32. Bands, with a window and without, are
//                flash's own, counted from the bottom right corner
//   fp32         memory-efficient attention, whose products are of three TF32 parts where there are
//                tensor cores. kv heads are repeated for their query heads and the gradients
//                summed. Its lse is padded to tiles x H x the longest tile.
//   16-bit head dims above 256, and a softcap in 16 bits   explicit scores between 16-bit products,
//                in strips (strip_varlen_attention.h). Out and gradients are in fp32; bands as
//                flash
//   fp64, and a softcap in fp32   explicit scores, in AccumulateType
//                (explicit_varlen_attention.h)
//
// Head dims are padded with zeros to a multiple of 8; the softmax scale is that of the unpadded
// dim. Where keys and values have different head dims, flash attention and cuDNN get the smaller
// one padded to the larger; memory-efficient attention takes both. A tile at a window's edge (key j
// >= query i): flash has it as a window of 0 to the left and no bound to the right, counted from
// the bottom right corner, which on a square is the diagonal; for memory-efficient attention its
// rows are reversed and it is causal. dq of both kernels is added up by atomics: its last bits
// differ between runs, unless LibTorch's deterministic algorithms are on. fp16 and bf16 need
// compute capability 8.0; LibTorch reports an error below that.
//
// Tested on a GPU by tests/attention/cuda_conformance_test.cc (docs/gpu.md), and on the CPU, with
// stand-ins for the kernels, by tests/attention/varlen_test.cc.

#include <memory>

#include "attention/kernel_choice.h"
#include "attention/varlen_attention.h"

namespace moonring::attention {

class CudaVarlenAttention final : public VarlenAttention {
 public:
  // `falls_back`: flash attention computes what cuDNN refuses; else the refusal is thrown.
  explicit CudaVarlenAttention(KernelChoice choice = {}, bool falls_back = true);

  absl::string_view name() const override { return "cuda"; }
  // True where flash attention is the kernel, or strips are.
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

#endif  // MOONRING_ATTENTION_CUDA_VARLEN_ATTENTION_H_
