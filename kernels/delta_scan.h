#ifndef MOONRING_KERNELS_DELTA_SCAN_H_
#define MOONRING_KERNELS_DELTA_SCAN_H_

// The gated delta rule's scan over a document's chunks (mixers/delta_chunks.h), forward or
// backward, in one launch for all documents and heads (operator moonring::delta_scan). For each
// chunk, in order, or from the last to the first:
//
//   states <- M                                    what the chunk is given
//   X = written - A M^T, and into `written`        X = -A M^T where that is undefined
//   M <- M Diag(decay) + added + X^T B             added: zeros where undefined
//
//   forward    A = W, B = K*, written = Y, which becomes U
//   backward   A = K*, B = W, added = what the chunk's outputs give to dM
//
// A, B [N, H, C, K]; written [N, H, C, V]; added, states [N, H, V, K]; decay [N, H, 1, K or 1], of
// any strides over chunks and heads; M [D, H, V, K]: first states in, last ones out. Chunk n of
// document d in round r is round_begin[r] + d, and the document has it where that is below
// round_begin[r + 1] (int64 [rounds + 1]; documents stand from the longest to the shortest).
// All in fp32, without gaps but for the decay's; C is 64, K at most 256.
//
// A block takes 16 rows of a head's M and keeps them in registers, and in shared memory where all
// of it is read. Cost: 4 N H C V K flop; reads A and B V / 16 times, mostly from the L2 cache, and
// everything else once. Sums have a fixed order. `tf32`: the operands of both products are rounded
// to TF32 and multiplied on tensor cores (kernels/tensor_cores.h); M, X and all sums stay in
// fp32. That moves X and M by some 3e-4 of themselves. For K of 64 and 128, V a multiple of 4 and
// data on 16 bytes; others are in fp32 as without it.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kDeltaScan[] = "moonring::delta_scan";

struct DeltaScanTensors {
  at::Tensor a_NHCK, b_NHCK;
  at::Tensor written_NHCV;  // changed in place; may be undefined
  at::Tensor added_NHVK;    // may be undefined
  at::Tensor decay_NH1X;
  at::Tensor state_DHVK;   // changed in place
  at::Tensor states_NHVK;  // written into
  at::Tensor round_begin;
};

// Whether the kernel has these sizes and this dtype.
bool DeltaScanTakes(at::ScalarType dtype, int64_t chunk, int64_t keys);

void DeltaScan(const DeltaScanTensors& tensors, bool backward, bool tf32 = false);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_DELTA_SCAN_H_
