#ifndef MOONRING_ATTENTION_TILE_PLAN_H_
#define MOONRING_ATTENTION_TILE_PLAN_H_

// Documents and their layout -> tiles and transfers. Host only; made once a micro-batch and shared by all layers.
//
// The grid of a document is comm::BlockSize(its length): a function of the length alone. A query block [a, b) of that
// grid meets first the keys [0, a) as full tiles, in the order of their tokens, then itself as one causal tile. On a
// rank that holds a document whole this is the same plan whatever the number of ranks: so SP = 1 and Ulysses make the
// same calls, head by head.
//
// Cost: O(blocks) for whole documents, O(ranks^2 spans + blocks) for the ring.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "attention/tile.h"
#include "comm/layout.h"

namespace moonring::attention {

// Every query and key row of the stream, in its order: what dense attention runs, and Ulysses on its own heads.
TilePlan PlanWholeDocuments(absl::Span<const int64_t> lengths);

// One step of the ring as one rank sees it: key rows go straight to the rank that needs them and come straight from
// their owner; only rows that some query of the reader sees travel.
struct RingStep {
  int to = 0;
  int from = 0;
  std::vector<RowRange> send;  // local key rows that `to` needs
  int64_t send_rows = 0;
  int64_t receive_rows = 0;
  TilePlan tiles;  // local queries against the rows received, in the order of the owner's rows
};

// Step 0 is the rank's own rows (nothing travels, `to` == `from` == rank); step s exchanges with the ranks s before
// and s after. A step in which no rank sends anything is left out on all ranks.
std::vector<RingStep> PlanRing(const comm::Layout& layout, int rank);

// The rows of `owner` that some query of `reader` sees, as ranges of the owner's local rows.
std::vector<RowRange> RowsNeeded(const comm::Layout& layout, int owner, int reader);

// Query-key pairs of the tokens [begin, end) of a document: the cost that balances layouts.
double CausalTileArea(int64_t document, int64_t begin, int64_t end);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_TILE_PLAN_H_
