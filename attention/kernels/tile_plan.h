#ifndef MOONRING_ATTENTION_KERNELS_TILE_PLAN_H_
#define MOONRING_ATTENTION_KERNELS_TILE_PLAN_H_

// Makes tiles from documents. Host only. All rules of which token may attend to which are here.
//
// A query t of a document attends to its keys s with s <= t and, under a window W, t - W < s: at
// most W keys, itself included, as `sliding_window` counts in Hugging Face configurations.
// Positions play no part: a window counts tokens in a document. A mask (mask.h) allows more: the
// tokens that precede its document, under the same window, and prefixes.
//
// Queries are cut in blocks. On the grid of blocks their size is comm::BlockSize(the document's
// length), a function of the length alone, so that any number of ranks makes the same calls. On the
// grid of spans blocks are whole spans, for kernels that accept ragged lists of sequences. Under a
// window blocks are no longer than W and have a boundary at token W, so that a block [a, b) either
// attends to its document from the start, or has these tiles:
//
//   [a - W + 1, b - W)   the window's edge, for the queries [a, b - 1)
//   [b - W, a)           full
//   [a, b)               causal
//
// Where some of these keys are on another rank or have not arrived yet, the tiles are cut; all
// pieces together cover the same pairs.
//
// On the grid of bands, for kernels that support these, a whole span is one tile (tile.h) where all
// keys that it attends to are one range of rows: those of its document up to the span's end, under
// a window from W - 1 tokens before its first. A plan of bands only is one call of the kernel.
// Where some keys are elsewhere, and under a mask, the grid of spans is used.
//
// Under a mask a block ends where a document's prefix ends. Each block attends to the documents
// before its own, in their order, and then to its own: of each to the prefix in full, and to the
// rest as above.
//
// Cost: O(blocks x the segments of keys of the documents that the block attends to).

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "attention/kernels/mask.h"
#include "attention/kernels/tile.h"
#include "comm/layout.h"

namespace moonring::attention {

enum class TileGrid { kBlocks, kSpans, kBands };

struct TileOptions {
  int64_t window = 0;  // 0: none
  TileGrid grid = TileGrid::kBlocks;
  const Mask* mask = nullptr;  // null: documents are causal and independent of each other
  friend bool operator==(const TileOptions&, const TileOptions&) = default;
};

// Tokens [begin, end) of a document, stored in a buffer of keys from `row` on.
struct KeySegment {
  comm::Span tokens;
  int64_t row = 0;
};

// The tiles of queries, stored span after span, against keys. A query block must not overlap a
// segment partially.
TilePlan PlanTiles(absl::Span<const int64_t> lengths, const std::vector<comm::Span>& queries,
                   const std::vector<KeySegment>& keys, const TileOptions& options);

// The tokens of `owned` that some query of `queries` attends to, in the order of `owned`, with
// their rows there.
std::vector<KeySegment> SeenTokens(const std::vector<comm::Span>& owned,
                                   const std::vector<comm::Span>& queries,
                                   const TileOptions& options);

// Query-key pairs of the tokens [begin, end) of a document: the cost by which layouts are balanced.
double CausalTileArea(int64_t document, int64_t begin, int64_t end);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_TILE_PLAN_H_
