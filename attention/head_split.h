#ifndef MOONRING_ATTENTION_HEAD_SPLIT_H_
#define MOONRING_ATTENTION_HEAD_SPLIT_H_

// Which heads a rank computes when heads are split over P ranks, and which query heads read which
// kv head.
//
//   rank p computes the query heads [p H / P, (p + 1) H / P), rounded down: any H and P, some ranks
//       may get none;
//   query head h reads kv head h / g, g = H / Hk: the rank needs the kv heads of its query heads,
//       and no others.
//
// Where a border falls inside a group, that kv head goes to both sides; for P > Hk each goes to
// about P / Hk ranks.

#include <cstdint>
#include <vector>

namespace moonring::attention {

struct HeadRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t heads() const { return end - begin; }
};

// Sizes of a head: of q and k, of v and what comes out.
struct HeadDims {
  int64_t key = 0;
  int64_t value = 0;
};

struct RankHeads {
  HeadRange queries;
  HeadRange kv;
  // Elements of q, k and v that the rank gets for each token.
  int64_t packed(const HeadDims& dims) const {
    return queries.heads() * dims.key + kv.heads() * (dims.key + dims.value);
  }
};

// `heads` must be a multiple of `kv_heads`.
std::vector<RankHeads> SplitHeads(int64_t heads, int64_t kv_heads, int ranks);

// Whether some kv head is on several ranks, so that its gradient is a sum over them.
bool SharesKvHeads(const std::vector<RankHeads>& split);

// Query heads that read one kv head, counted from the rank's first.
struct HeadGroup {
  HeadRange queries;
  int64_t kv = 0;
};

// The groups of a rank's heads; the first and the last may be smaller than g.
std::vector<HeadGroup> GroupHeads(const RankHeads& rank, int64_t group_size);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_HEAD_SPLIT_H_
