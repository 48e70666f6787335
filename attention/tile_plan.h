#ifndef MOONRING_ATTENTION_TILE_PLAN_H_
#define MOONRING_ATTENTION_TILE_PLAN_H_

// Documents -> tiles. Host only; the one place that knows who sees whom.
//
// A query t of a document sees its keys s with s <= t and, under a window W, t - W < s: W keys at
// most, itself among them, as `sliding_window` counts them in Hugging Face's configurations.
// Positions play no part: a window is of tokens in a document. A mask (mask.h) lets it see more:
// the tokens before its document, under the same window, and prefixes.
//
// Queries are cut in blocks. On the grid of blocks these are comm::BlockSize(the document's
// length), a function of the length alone, so that any number of ranks makes the same calls; on the
// grid of spans they are whole spans, for kernels that take ragged lists of sequences. Under a
// window they are no longer than W and have a border at token W, so that a block [a, b) either sees
// its document from the start, or meets
//
//   [a - W + 1, b - W)   by the window's edge, for the queries [a, b - 1)
//   [b - W, a)           in full
//   [a, b)               causally
//
// Keys that are away, with another rank or not yet there, cut these pieces; the pieces of all parts
// together are the same pairs.
//
// On the grid of bands, for kernels that know these, a whole span is one tile (tile.h) where all
// keys that it sees lie in one run of rows: those of its document up to its end, under a window
// from W - 1 before its first. A plan of nothing else is one call of the kernel. Where keys are
// elsewhere in part, and under a mask, it is the grid of spans.
//
// Under a mask a document's prefix ends a block. Each block meets the documents before its own, in
// their order, and then its own: of each the prefix in full, and of the rest what is above.
//
// Cost: O(blocks x the keys' segments of the documents that it sees).

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "attention/mask.h"
#include "attention/tile.h"
#include "comm/layout.h"

namespace moonring::attention {

enum class TileGrid { kBlocks, kSpans, kBands };

struct TileOptions {
  int64_t window = 0;  // 0: none
  TileGrid grid = TileGrid::kBlocks;
  const Mask* mask = nullptr;  // null: documents are causal and see themselves alone
  friend bool operator==(const TileOptions&, const TileOptions&) = default;
};

// Tokens [begin, end) of a document that lie in a buffer of keys from `row` on.
struct KeySegment {
  comm::Span tokens;
  int64_t row = 0;
};

// The tiles of queries that lie one span after another against keys. A query block must not lie
// partly in a segment.
TilePlan PlanTiles(absl::Span<const int64_t> lengths, const std::vector<comm::Span>& queries,
                   const std::vector<KeySegment>& keys, const TileOptions& options);

// The tokens of `owned` that some query of `queries` sees, in the order of `owned`, by their rows
// there.
std::vector<KeySegment> SeenTokens(const std::vector<comm::Span>& owned,
                                   const std::vector<comm::Span>& queries,
                                   const TileOptions& options);

// Query-key pairs of the tokens [begin, end) of a document: the cost that balances layouts.
double CausalTileArea(int64_t document, int64_t begin, int64_t end);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_TILE_PLAN_H_
