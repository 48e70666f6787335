#ifndef MOONRING_ATTENTION_ATTENTION_COST_H_
#define MOONRING_ATTENTION_ATTENTION_COST_H_

// What one layer's attention costs each rank under a strategy and a layout, known before anything runs.

#include <cstdint>
#include <vector>

namespace moonring::attention {

struct AttentionShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t element_bytes = 2;     // of q, k, v
  int64_t accumulate_bytes = 4;  // of sums that travel
};

struct RankCost {
  double tile_area = 0;  // query-key pairs, times the query heads that the rank computes
  int64_t forward_steps = 0, backward_steps = 0;
  int64_t forward_bytes = 0, backward_bytes = 0;  // sent to other ranks
};

using AttentionCost = std::vector<RankCost>;  // by rank

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_ATTENTION_COST_H_
