#ifndef MOONRING_ATTENTION_STRATEGY_ATTENTION_COST_H_
#define MOONRING_ATTENTION_STRATEGY_ATTENTION_COST_H_

// Predicted cost of one layer's attention for each rank under a strategy and a layout. The cost is
// counted from the plan; attention does not run.
//
// An exchange with n peers counts as n steps, as in comm/communicator.h. Bytes are exactly those
// sent to other ranks.

#include <cstdint>
#include <vector>

#include "attention/kernels/head_split.h"
#include "attention/kernels/mask.h"
#include "attention/strategy/hybrid_attention.h"
#include "comm/layout.h"

namespace moonring::attention {

struct AttentionShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t window = 0;
  int64_t element_bytes = 2;     // bytes of an element of q, k, v
  int64_t accumulate_bytes = 4;  // bytes of an element of partial results and sums
  bool upcasts = true;  // q, k, v and dout in 16 bits are converted to the dtype of sums before use
  int64_t value_dim = 0;  // head dim of v and of the output; 0: head_dim

  HeadDims dims() const { return {head_dim, value_dim > 0 ? value_dim : head_dim}; }
};

struct Traffic {
  int64_t exchanges = 0;  // calls of Exchange, each with any number of peers
  int64_t steps = 0;      // number of peers, summed over the exchanges
  int64_t bytes = 0;
  int64_t far_bytes = 0;  // the share of `bytes` that goes to ranks of other machines

  Traffic& operator+=(const Traffic& other);
};

struct RankCost {
  double tile_area = 0;  // query-key pairs, times the query heads that the rank computes
  Traffic exchange_forward, exchange_backward;  // exchanges of heads, for which attention waits
  Traffic context_forward, context_backward;    // transfers of keys, which overlap with the
                                                // computation of tiles
  bool merges = false;                          // the partial results of several steps are merged
  bool waits_for_keys = false;  // no tiles are computed during the transfer of the first keys
  // The peak of memory beyond the inputs (q, k, v, dout), the outputs (out, or the gradients of q,
  // k and v, counted as allocated from the start) and what is saved between forward and backward.
  // It assumes one tile at a time and a runner that computes in the dtype of sums, as the CPU's
  // does; memory internal to the kernels is not counted.
  int64_t peak_bytes = 0;
  int64_t saved_bytes = 0;  // from forward to backward, in addition to q, k, v and out

  Traffic forward() const;
  Traffic backward() const;
};

using AttentionCost = std::vector<RankCost>;  // indexed by rank

// `ranks_per_machine`: number of consecutive ranks that share a machine; 0: all ranks share one.
// The layout must have the strategy's division. `mask`: the mask of the layout's documents; null:
// they are causal and independent of each other.
AttentionCost CostOfAttention(const Strategy& strategy, const comm::Layout& layout,
                              const AttentionShape& shape, int ranks_per_machine = 0,
                              const Mask* mask = nullptr);

// An approximate version for choosing between strategies, in O(ranks log ranks) where
// CostOfAttention needs O(ranks^2) or more. It does not compute memory and steps. Areas and the
// exchange of heads are computed for all ranks; transfers along the context axis are computed for a
// sample of at most 32 context ranks (counted_places.h).
AttentionCost EstimateCost(const Strategy& strategy, const comm::Layout& layout,
                           const AttentionShape& shape, int ranks_per_machine = 0);

// The greatest tile area divided by the mean one; 1 where all areas are zero.
double Balance(const AttentionCost& cost);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGY_ATTENTION_COST_H_
