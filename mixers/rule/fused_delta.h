#ifndef MOONRING_MIXERS_RULE_FUSED_DELTA_H_
#define MOONRING_MIXERS_RULE_FUSED_DELTA_H_

// The computations of delta_chunks.h and span.h on a GPU. LibTorch's operators compute products
// over all chunks and heads. Kernels compute the other steps: packing with norms and decays, scores
// and their inverse, the scan, gradients and unpacking (kernels/delta_pack.h, delta_scores.h,
// delta_scan.h). All numbers are in fp32. The equations are those of delta_chunks.h, but the
// triangular system for U, the values that a chunk writes to the state, is solved by a matrix
// inverse that also includes beta, the step sizes. (key: the decayed products of the chunk's keys;
// V: its values; K': its keys, decayed from the chunk's start; M: the state before it; W: what M is
// multiplied by in U.)
//
//   inverse = (I + Diag(beta) key)^-1;  U = inverse Diag(beta) (V - K' M^T);
//   W = inverse Diag(beta) K'
//
// Where q, k and v have 16 bits, products and the scan are in TF32
// (kernels/products/tf32_products.h). The resulting relative errors of results and gradients, 5e-4
// to 2e-3, are at most those that rounding q, k and v to bf16 causes, 2e-3 to 4e-3
// (delta_tf32_test). The inverse and decays stay in fp32, and so does everything in an fp32 run.
//
// Supported: q, k and v in fp32, bf16 or fp16, with one decay per head, d_k up to 256 and
// DeltaOptions::delta on. Other inputs use delta_chunks.h, whose scan is the same kernel. Cost:
// about 20 operators forward and 40 backward for each group of heads and chunks that is processed
// at once (TilesOf, packed_heads.h); the backward has about 25 tensors of the maximal size set
// there.

#include <optional>
#include <utility>

#include "mixers/rule/delta_inputs.h"
#include "mixers/rule/document_chunks.h"
#include "mixers/rule/packed_heads.h"

namespace moonring::mixers {

// Each call processes some heads, and a grid of chunks or a part of one (document_chunks.h). States
// are in the grid's order of documents; returned states are new tensors.
class FusedDelta {
 public:
  // nullopt where the kernels do not support the inputs, or are disabled.
  static std::optional<FusedDelta> Of(const DeltaInputs& inputs, const DeltaOptions& options);

  // Returns the final states. Writes these heads' `out_THV` for the grid's tokens, and
  // `states_NHVK`, the state before each chunk.
  at::Tensor Forward(const HeadSlice& heads, const DocumentChunks& grid,
                     const at::Tensor& first_DHVK, const at::Tensor& out_THV,
                     const at::Tensor& states_NHVK) const;

  // Returns the gradient of the initial states. Writes these heads' rows of the grid's tokens in
  // `gradients`, tensors of the inputs' shapes and dtypes (not initial_DHVK). `d_out_THV` has all
  // heads.
  at::Tensor Backward(const HeadSlice& heads, const DocumentChunks& grid,
                      const at::Tensor& states_NHVK, const at::Tensor& d_out_THV,
                      const at::Tensor& d_last_DHVK, const DeltaInputs& gradients) const;

  // Computes only the final states; q may be undefined.
  at::Tensor LastStates(const HeadSlice& heads, const DocumentChunks& grid,
                        const at::Tensor& first_DHVK) const;

  // Computes only the gradient of the initial states. Does not read the inputs' v.
  at::Tensor FirstStatesBackward(const HeadSlice& heads, const DocumentChunks& grid,
                                 const at::Tensor& d_out_THV, const at::Tensor& d_last_DHVK) const;

 private:
  FusedDelta(DeltaInputs inputs, const DeltaOptions& options)
      : inputs_(std::move(inputs)), options_(options) {}

  bool is_narrow() const { return inputs_.v_THV.element_size() == 2; }

  DeltaInputs inputs_;  // g and beta in fp32
  DeltaOptions options_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_FUSED_DELTA_H_
