#ifndef MOONRING_TRAINER_SHARDING_ZERO_COST_H_
#define MOONRING_TRAINER_SHARDING_ZERO_COST_H_

// How a weight of n elements is sharded over P ranks, and the resulting communication per rank.
//
//   part(r)    ceil(n / P) elements each; the last ranks have fewer, or none. No padding
//   gather     (P - 1) part(r) elements, in the dtype in which the weight is used
//   scatter    n - part(r) elements, in the gradient's dtype (fp32; fp64 for fp64)
//   across     an all-reduce of part(r) elements over the R ranks with the same shard:
//              2 (R - 1) / R part(r)
//
// A step of M micro-batches, for a trainable weight:
//
//   stage    gathers                                scatters               elements on a rank
//   0        -                                      -                      n, n, 2 n
//   1        1, after the update                    1, at the step's end   n, n, 2 part
//   2        1, after the update                    M u                    n, part, 2 part
//   3        M (uses in forward and backward)       M u                    part, part, 2 part
//
// The last column has the elements of the weight, of its gradient and of AdamW's state that one
// rank stores. In stage 0, gradients are all-reduced over all ranks (`across` with n elements). u
// is the number of times that the model uses the weight in a micro-batch, each with its own
// gradient: 1, or 2 for a tied embedding. Uses in forward and backward: the weight of a transformer
// block is gathered once in the forward and, if the block is recomputed, once in the backward; an
// embedding once in the forward; a head twice. In stage 3, a frozen weight is gathered as often but
// has no scatters, and each rank stores only its section; in stages 1 and 2 every rank stores the
// whole frozen weight. With bf16, matrices are stored and gathered in bf16, and stages 1 and 2
// additionally store the fp32 shard (the master).

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace moonring::trainer {

inline std::vector<int64_t> PartsOf(int64_t numel, int ranks) {
  const int64_t most = (numel + ranks - 1) / ranks;
  std::vector<int64_t> parts;
  for (int r = 0; r < ranks; ++r) parts.push_back(std::clamp<int64_t>(numel - r * most, 0, most));
  return parts;
}

// Offset of the section of `rank`.
inline int64_t PartBegin(const std::vector<int64_t>& parts, int rank) {
  return std::accumulate(parts.begin(), parts.begin() + rank, int64_t{0});
}

inline int64_t GatherBytes(int64_t numel, int64_t element_bytes, int ranks, int rank) {
  return (ranks - 1) * PartsOf(numel, ranks)[rank] * element_bytes;
}
inline int64_t ScatterBytes(int64_t numel, int64_t element_bytes, int ranks, int rank) {
  return (numel - PartsOf(numel, ranks)[rank]) * element_bytes;
}

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_SHARDING_ZERO_COST_H_
