#ifndef MOONRING_ATTENTION_KERNELS_HEAD_SPLIT_H_
#define MOONRING_ATTENTION_KERNELS_HEAD_SPLIT_H_

// How H query heads and Hk kv heads are split over P ranks, and which query heads read which kv
// head.
//
//   rank p computes the query heads [p H / P, (p + 1) H / P), both bounds rounded down, for any H
//       and P; some ranks may have no head;
//   query head h reads kv head h / g, g = H / Hk: the rank needs the kv heads of its query heads
//       and no others.
//
// Where a boundary between ranks falls inside the group of query heads of one kv head, both ranks
// get this kv head. For P > Hk each kv head goes to about P / Hk ranks.

#include <cstdint>
#include <vector>

namespace moonring::attention {

struct HeadRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t heads() const { return end - begin; }
};

// Head dims: of q and k; of v and the output.
struct HeadDims {
  int64_t key = 0;
  int64_t value = 0;
};

struct RankHeads {
  HeadRange queries;
  HeadRange kv;
  // Elements per token of the rank's heads of q, k and v together.
  int64_t packed(const HeadDims& dims) const {
    return queries.heads() * dims.key + kv.heads() * (dims.key + dims.value);
  }
};

// The heads of each rank. `heads` must be a multiple of `kv_heads`.
std::vector<RankHeads> SplitHeads(int64_t heads, int64_t kv_heads, int ranks);

// Whether some kv head is on several ranks, so that its gradient is a sum over them.
bool SharesKvHeads(const std::vector<RankHeads>& split);

// Query heads that read one kv head. Indices count from the rank's first head.
struct HeadGroup {
  HeadRange queries;
  int64_t kv = 0;
};

// The groups of a rank's heads; the first and the last may be smaller than `group_size`.
std::vector<HeadGroup> GroupHeads(const RankHeads& rank, int64_t group_size);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_HEAD_SPLIT_H_
