#ifndef MOONRING_ATTENTION_KERNELS_TILE_PLAN_H_
#define MOONRING_ATTENTION_KERNELS_TILE_PLAN_H_

// Makes tiles (tile.h) from documents, on the host. This file has all rules of which token may
// attend to which.
//
// The query at token t of a document attends to the document's keys s with s <= t and, under a
// window W, t - W < s: at most W keys, with t itself, as `sliding_window` counts in Hugging Face
// configurations. Positions play no part: a window counts tokens in a document. A mask (mask.h)
// allows more keys: those of a document's ancestors (its parent, the parent's parent, and so on),
// under the same window, and prefixes.
//
// Queries are cut into blocks. TileGrid::kBlocks: a block has comm::BlockSize(the document's
// length) tokens, which depends on this length alone, so that any number of ranks makes the same
// kernel calls. TileGrid::kSpans: a block is a whole span, that is a contiguous run of a document's
// tokens on one rank; for kernels that accept ragged (varlen) lists of sequences. Under a window
// blocks are no longer than W and have a boundary at token W, so that a block [a, b) either attends
// to its document from the start, or has these tiles:
//
//   [a - W + 1, b - W)   the window's edge, for the queries [a, b - 1)
//   [b - W, a)           full
//   [a, b)               causal
//
// Where some of these keys are on another rank or have not arrived yet, the tiles are cut into
// pieces, which together cover the same query-key pairs.
//
// TileGrid::kBands, for kernels that support bands (tile.h): a whole span is one tile of the kind
// band, if all keys that it attends to are one range of rows. These are the keys of its document up
// to the span's end; under a window, from W - 1 tokens before the span on. A plan that has only
// bands is one kernel call. Where some of the keys are elsewhere, and under a mask, the span is cut
// as for kSpans.
//
// Under a mask a block ends where a document's prefix ends. Each block has tiles for its document's
// ancestors, from the outermost one on, and then for its own document. In each of these documents,
// it attends to the whole prefix, and to the other tokens as above.
//
// Cost: O(blocks x segments), where segments are the KeySegments of the documents that a block
// attends to.

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

// Makes the tiles of the query spans, whose rows are stored span after span, against the key
// segments. A query block must not overlap a segment partially.
TilePlan PlanTiles(absl::Span<const int64_t> lengths, const std::vector<comm::Span>& queries,
                   const std::vector<KeySegment>& keys, const TileOptions& options);

// The tokens of the spans `owned` that some query of `queries` attends to, in the order of `owned`,
// each with its row index among the rows of `owned`.
std::vector<KeySegment> SeenTokens(const std::vector<comm::Span>& owned,
                                   const std::vector<comm::Span>& queries,
                                   const TileOptions& options);

// The number of causal query-key pairs of the tokens [begin, end) of a document. Layouts balance
// this number over ranks.
double CausalTileArea(int64_t document, int64_t begin, int64_t end);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_TILE_PLAN_H_
