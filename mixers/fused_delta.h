#ifndef MOONRING_MIXERS_FUSED_DELTA_H_
#define MOONRING_MIXERS_FUSED_DELTA_H_

// delta_chunks.h and what span.h has of it on a GPU: products over all chunks and heads by
// LibTorch's operators, and kernels for what lies between them: packing with norms and decays,
// scores and their inverse, the scan, gradients and unpacking (kernels/delta_pack.h,
// delta_scores.h, delta_scan.h). All numbers are in fp32. The same equations, with beta in the
// inverse instead of in the right sides:
//
//   inverse = (I + Diag(beta) key)^-1;  U = inverse Diag(beta) (V - K' M^T);  W = inverse
//   Diag(beta) K'
//
// Where q, k and v have 16 bits, products and the scan are in TF32
// (kernels/products/tf32_products.h). That costs each result and gradient at most what rounding q,
// k and v to bf16 costs it: relative errors of 5e-4 to 2e-3, where that has 2e-3 to 4e-3
// (delta_tf32_test). Inverse and decays stay in fp32, and so does all of a run in fp32.
//
// For q, k and v in fp32, bf16 or fp16 with one decay a head and d_k up to 256; others, fp64, and
// what has no delta, go by delta_chunks.h, whose scan is the kernel too.
// Cost: some 20 operators forward and 40 backward for what goes together (TilesOf, packed_heads.h);
// backward holds some 25 tensors of its most numbers.

#include <optional>
#include <utility>

#include "mixers/delta_inputs.h"
#include "mixers/document_chunks.h"
#include "mixers/packed_heads.h"

namespace moonring::mixers {

// Each of some heads and of the whole grid or a part of it, whose states are in its order. Returned
// are states of their own.
class FusedDelta {
 public:
  // None where the kernels do not take them, or are not to be used.
  static std::optional<FusedDelta> Of(const DeltaInputs& inputs, const DeltaOptions& options);

  // The last states. Writes those heads' `out_THV` of the grid's tokens, and `states_NHVK`, before
  // each chunk.
  at::Tensor Forward(const HeadSlice& heads, const DocumentChunks& grid,
                     const at::Tensor& first_DHVK, const at::Tensor& out_THV,
                     const at::Tensor& states_NHVK) const;

  // The gradient of the first states. Writes those heads' rows of the grid's tokens of `gradients`,
  // tensors of the inputs' shapes and dtypes, but for initial_DHVK. `d_out_THV`: of all heads.
  at::Tensor Backward(const HeadSlice& heads, const DocumentChunks& grid,
                      const at::Tensor& states_NHVK, const at::Tensor& d_out_THV,
                      const at::Tensor& d_last_DHVK, const DeltaInputs& gradients) const;

  // The last states alone, of inputs without q.
  at::Tensor LastStates(const HeadSlice& heads, const DocumentChunks& grid,
                        const at::Tensor& first_DHVK) const;

  // The gradient of the first states alone. The inputs' v is not read for it.
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

#endif  // MOONRING_MIXERS_FUSED_DELTA_H_
