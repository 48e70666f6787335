#ifndef MOONRING_KERNELS_DELTA_SCAN_H_
#define MOONRING_KERNELS_DELTA_SCAN_H_

// The gated delta rule's scan over a document's chunks (mixers/rule/delta_chunks.h), forward or
// backward, in one launch for all documents and heads (operator moonring::delta_scan). A chunk with
// the initial state M writes the values U = Y - W M^T with the keys K*, which are decayed to the
// chunk's end; Y and W solve the chunk's triangular system for its values and its decayed keys. For
// each chunk, from the first to the last (backward: from the last to the first):
//
//   states <- M                                    the state before the chunk
//   X = written - A M^T, also stored in `written`  X = -A M^T if `written` is undefined
//   M <- M Diag(decay) + added + X^T B             added: zeros if undefined
//
//   forward    A = W, B = K*, written = Y, which becomes U
//   backward   A = K*, B = W, added = the contribution of the chunk's outputs to dM
//
// N chunks of C tokens, H heads, K = d_k and V = d_v channels: A, B [N, H, C, K]; written [N, H, C,
// V]; added, states [N, H, V, K]; decay [N, H, 1, K or 1], with any strides over chunks and heads;
// M [D, H, V, K] for D documents: first states in, last states out. Documents are sorted from the
// longest to the shortest and advance in rounds, one chunk each per round: document d's chunk in
// round r is round_begin[r] + d, if that is below round_begin[r + 1] (int64 [rounds + 1]). All
// tensors are fp32, and contiguous except for the decay; C is 64, K at most 256.
//
// A block of threads has 16 rows of a head's M in registers, and also in shared memory, from which
// the whole block reads them. Cost: 4 N H C V K flop; A and B are read V / 16 times, mostly from
// the L2 cache, and everything else once. Sums have a fixed order. `tf32`: the operands of both
// products are rounded to TF32 and multiplied on tensor cores (kernels/tensor_cores.h); M, X and
// all sums stay in fp32. This changes X and M by a relative error of about 3e-4. It applies to K of
// 64 and 128, V a multiple of 4 and data aligned to 16 bytes; other sizes are computed in fp32.

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

// Whether the kernel supports these sizes and this dtype.
bool DeltaScanTakes(at::ScalarType dtype, int64_t chunk, int64_t keys);

void DeltaScan(const DeltaScanTensors& tensors, bool backward, bool tf32 = false);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_DELTA_SCAN_H_
