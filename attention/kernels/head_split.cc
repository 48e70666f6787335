#include "attention/kernels/head_split.h"

#include <algorithm>

#include <c10/util/Exception.h>

namespace moonring::attention {

std::vector<RankHeads> SplitHeads(int64_t heads, int64_t kv_heads, int ranks) {
  TORCH_CHECK(kv_heads > 0 && heads > 0 && heads % kv_heads == 0, "attention: ", heads,
              " query heads are no multiple of ", kv_heads, " kv heads");
  const int64_t group = heads / kv_heads;
  std::vector<RankHeads> split(ranks);
  for (int64_t p = 0; p < ranks; ++p) {
    const HeadRange queries{p * heads / ranks, (p + 1) * heads / ranks};
    if (queries.heads() == 0) continue;
    split[p] = {queries, {queries.begin / group, (queries.end + group - 1) / group}};
  }
  return split;
}

bool SharesKvHeads(const std::vector<RankHeads>& split) {
  int64_t next = 0;
  for (const RankHeads& rank : split) {
    if (rank.kv.heads() == 0) continue;
    if (rank.kv.begin < next) return true;
    next = rank.kv.end;
  }
  return false;
}

std::vector<HeadGroup> GroupHeads(const RankHeads& rank, int64_t group_size) {
  std::vector<HeadGroup> groups;
  for (int64_t kv = rank.kv.begin; kv < rank.kv.end; ++kv) {
    const int64_t begin = std::max(rank.queries.begin, kv * group_size),
                  end = std::min(rank.queries.end, (kv + 1) * group_size);
    groups.push_back({{begin - rank.queries.begin, end - rank.queries.begin}, kv - rank.kv.begin});
  }
  return groups;
}

}  // namespace moonring::attention
