#ifndef MOONRING_ATTENTION_ATTENTION_COST_H_
#define MOONRING_ATTENTION_ATTENTION_COST_H_

// What one layer's attention costs each rank under a strategy and a layout: counted from the plan,
// without running it.
//
// Steps are counted as comm/communicator.h counts an exchange, by peers. Bytes are those sent to
// other ranks, exactly.

#include <cstdint>
#include <vector>

#include "attention/head_split.h"
#include "attention/hybrid_attention.h"
#include "attention/mask.h"
#include "comm/layout.h"

namespace moonring::attention {

struct AttentionShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t window = 0;
  int64_t element_bytes = 2;     // of q, k, v
  int64_t accumulate_bytes = 4;  // of sums
  bool upcasts = true;           // narrower q, k, v, dout are worked on in the type of sums
  int64_t value_dim = 0;         // of v and what comes out; 0: head_dim

  HeadDims dims() const { return {head_dim, value_dim > 0 ? value_dim : head_dim}; }
};

struct Traffic {
  int64_t exchanges = 0;  // with any number of peers at once
  int64_t steps = 0;      // peers, summed over the exchanges
  int64_t bytes = 0;
  int64_t far_bytes = 0;  // of these, to ranks of other machines

  Traffic& operator+=(const Traffic& other);
};

struct RankCost {
  double tile_area = 0;  // query-key pairs, times the query heads that the rank computes
  Traffic exchange_forward, exchange_backward;  // of heads: attention waits for it
  Traffic context_forward, context_backward;    // of keys: under way while tiles are computed
  // The most alive at a time beyond what goes in (q, k, v, dout), what comes out (out, their
  // gradients; counted as if there from the start) and what is saved between forward and backward.
  // One tile in work, by a runner that computes in the type of sums, as the CPU's does; without
  // what its kernels keep to themselves.
  int64_t peak_bytes = 0;
  int64_t saved_bytes = 0;  // from forward to backward, beside q, k, v and out

  Traffic forward() const;
  Traffic backward() const;
};

using AttentionCost = std::vector<RankCost>;  // by rank

// `ranks_per_machine`: neighbours that share one; 0: all do. The layout is one by the strategy's
// division. `mask`: of its documents; null: they are causal and see themselves alone.
AttentionCost CostOfAttention(const Strategy& strategy, const comm::Layout& layout,
                              const AttentionShape& shape, int ranks_per_machine = 0,
                              const Mask* mask = nullptr);

// The same for a choice between strategies, in O(ranks log ranks) where CostOfAttention takes
// O(ranks^2) and more: without memory and steps. Areas and what is exchanged for heads are of all
// ranks; what travels along the context axis of 32 places at most (counted_places.h).
AttentionCost EstimateCost(const Strategy& strategy, const comm::Layout& layout,
                           const AttentionShape& shape, int ranks_per_machine = 0);

// The greatest tile area over the mean one; 1 where there is none.
double Balance(const AttentionCost& cost);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_ATTENTION_COST_H_
