#ifndef MOONRING_ATTENTION_CUDA_VARLEN_ATTENTION_H_
#define MOONRING_ATTENTION_CUDA_VARLEN_ATTENTION_H_

// VarlenAttention by LibTorch's fused kernels for GPUs: never M x N scores, O(M D) memory beyond
// the results.
//
//   bf16, fp16   flash attention (FA2), head dims up to 256; long tiles by cuDNN where the choice
//                says so (kernel_choice.h, cudnn_attention.h). Query heads share kv heads in the
//                kernel. Out and gradients are in the inputs' dtype, and the backward takes the
//                global out rounded to it; lse is fp32. Bands, with a window and without, are
//                flash's own, counted from the bottom right corner
//   fp32         memory-efficient attention, whose products are of three TF32 parts where there are
//                tensor cores. kv heads are repeated for their query heads and the gradients
//                summed. Its lse is padded to tiles x H x the longest tile.
//   fp64, 16-bit head dims above 256, and a softcap, which no fused kernel here knows   scores
//                written out, in AccumulateType (explicit_varlen_attention.h)
//
// Head dims that are no multiple of 8 are filled up with zeros; the scale stays that of the true
// one. Where the values' is another than the keys', flash attention and cuDNN get the lesser filled
// up to the greater; memory-efficient attention takes both. A tile at a window's edge (key j >=
// query i): flash has it as a window of 0 to the left and no bound to the right, counted from the
// bottom right corner, which on a square is the diagonal; for memory-efficient attention its rows
// are reversed and it is causal. dq of both kernels is added up by atomics: its last bits differ
// between runs, unless LibTorch is told to be deterministic. fp16 and bf16 need compute
// capability 8.0; the kernel refuses less with a message of its own.
// What an H100 gave is in docs/gpu.md; all that is around the kernels is tested on the CPU with
// stand-ins (tests/attention/varlen_test.cc), and on a GPU by
// tests/attention/cuda_conformance_test.cc.

#include <memory>

#include "attention/kernel_choice.h"
#include "attention/varlen_attention.h"

namespace moonring::attention {

class CudaVarlenAttention final : public VarlenAttention {
 public:
  // `falls_back`: flash attention does what cuDNN refuses; else that is an error.
  explicit CudaVarlenAttention(KernelChoice choice = {}, bool falls_back = true);

  absl::string_view name() const override { return "cuda"; }
  // Flash attention does.
  bool TakesBands(at::ScalarType type, int64_t head_dim, const ScoreFunction& score) const override;

 private:
  PartialAttention RunForward(const VarlenTiles& tiles) const override;
  TileGradients RunBackward(const VarlenTiles& tiles, const at::Tensor& dout_MHD,
                            const at::Tensor& out_MHD, const at::Tensor& lse_MH) const override;

  KernelChoice choice_;
  bool falls_back_;
  std::unique_ptr<const VarlenAttention> explicit_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_CUDA_VARLEN_ATTENTION_H_
