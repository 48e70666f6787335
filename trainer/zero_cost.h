#ifndef MOONRING_TRAINER_ZERO_COST_H_
#define MOONRING_TRAINER_ZERO_COST_H_

// How a weight of n numbers is sharded over P ranks, and what a rank sends for it.
//
//   part(r)    ceil(n / P) numbers each; the last ranks less, or none. Nothing is padded
//   gather     (P - 1) part(r) numbers, of the dtype that is leased
//   scatter    n - part(r) numbers, of the gradient's dtype (fp32; fp64 for fp64)
//   across     an all-reduce of part(r) numbers over the R ranks that hold the same part:
//              2 (R - 1) / R part(r)
//
// A step of M micro-batches, for a weight that learns:
//
//   stage    gathers                                scatters               numbers a rank holds
//   0        -                                      -                      n, n, 2 n
//   1        1, after the update                    1, at the step's end   n, n, 2 part
//   2        1, after the update                    M u                    n, part, 2 part
//   3        M (leases forward and backward)        M u                    part, part, 2 part
//
// What a rank holds is weight, gradient and AdamW's state. Across, in stage 0: over all ranks, of n
// numbers.
// u: the weight's users in a micro-batch: 1; 2 of a tied embedding. Leases of a block's weight: 1
// forward and, where the block is computed again, 1 backward; of an embedding 1 forward; of a head
// 2. A frozen weight is gathered as often in stage 3, a part a rank, and no more; in stages 1 and 2
// it is whole everywhere. Under bf16 matrices are held and gathered in bf16, and stages 1 and 2
// hold the fp32 part besides (the master).

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

// Where the part of `rank` begins.
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

#endif  // MOONRING_TRAINER_ZERO_COST_H_
