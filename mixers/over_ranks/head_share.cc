#include "mixers/over_ranks/head_share.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>

namespace moonring::mixers {

HeadShare HeadShareOf(const DeltaCall& call, int rank, int ranks) {
  const int64_t heads = call.value_heads, keys = call.key_heads;
  TORCH_CHECK(keys > 0 && heads > 0 && heads % keys == 0, "delta rule: ", heads,
              " value heads are no multiple of ", keys, " key heads");
  HeadShare share{.values_begin = rank * heads / ranks, .values_end = (rank + 1) * heads / ranks};
  if (share.values() == 0) return share;
  const int64_t group = heads / keys;
  share.keys_begin = share.values_begin / group;
  share.keys_end = (share.values_end + group - 1) / group;
  return share;
}

std::shared_ptr<const comm::ColumnSplit> ChannelsOfHeads(const DeltaCall& call, int ranks) {
  const int64_t keys = call.key_heads * call.key_dim;
  auto split = std::make_shared<comm::ColumnSplit>();
  split->width = 2 * keys + call.value_heads * call.value_dim;
  for (int rank = 0; rank < ranks; ++rank) {
    const HeadShare share = HeadShareOf(call, rank, ranks);
    const int64_t begin = share.keys_begin * call.key_dim, count = share.keys() * call.key_dim;
    split->of_rank.push_back(
        {{begin, count},
         {keys + begin, count},
         {2 * keys + share.values_begin * call.value_dim, share.values() * call.value_dim}});
  }
  return split;
}

std::shared_ptr<const comm::ColumnSplit> ValueHeads(const DeltaCall& call, int ranks) {
  auto split = std::make_shared<comm::ColumnSplit>();
  split->width = call.value_heads;
  for (int rank = 0; rank < ranks; ++rank) {
    const HeadShare share = HeadShareOf(call, rank, ranks);
    split->of_rank.push_back({{share.values_begin, share.values()}});
  }
  return split;
}

at::Tensor RepeatedKeys(const DeltaCall& call, const HeadShare& share) {
  const int64_t group = call.value_heads / call.key_heads;
  std::vector<int64_t> values;  // number of value heads of each key head
  for (int64_t key = share.keys_begin; key < share.keys_end; ++key)
    values.push_back(std::min(share.values_end, (key + 1) * group) -
                     std::max(share.values_begin, key * group));
  if (std::all_of(values.begin(), values.end(), [&](int64_t n) { return n == values[0]; }))
    return {};
  const int64_t each = std::accumulate(values.begin(), values.end(), int64_t{0},
                                       [](int64_t a, int64_t b) { return std::gcd(a, b); });
  std::vector<int64_t> repeated;
  for (size_t key = 0; key < values.size(); ++key)
    repeated.insert(repeated.end(), values[key] / each, static_cast<int64_t>(key));
  return at::tensor(repeated, at::kLong);
}

}  // namespace moonring::mixers
