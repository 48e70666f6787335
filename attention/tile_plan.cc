#include "attention/tile_plan.h"

#include <algorithm>

#include <c10/util/Exception.h>

#include "absl/container/flat_hash_map.h"

namespace moonring::attention {
namespace {

using SegmentsOfDocument = absl::flat_hash_map<int64_t, std::vector<KeySegment>>;

SegmentsOfDocument ByDocument(const std::vector<KeySegment>& segments) {
  SegmentsOfDocument result;
  for (const KeySegment& segment : segments) result[segment.tokens.document].push_back(segment);
  for (auto& [document, of_document] : result) {
    std::sort(of_document.begin(), of_document.end(), [](const KeySegment& a, const KeySegment& b) {
      return a.tokens.begin < b.tokens.begin;
    });
  }
  return result;
}

// The end of the block of the queries [at, span.end).
int64_t BlockEnd(const comm::Span& span, int64_t at, int64_t length, const TileOptions& options) {
  int64_t first = span.begin, end = span.end;
  if (options.grid == TileGrid::kBlocks) {
    const int64_t block = comm::BlockSize(length);
    first = at / block * block;
    end = std::min(end, first + block);
  }
  if (options.window > 0) {
    end = std::min(end, first + ((at - first) / options.window + 1) * options.window);
    if (at < options.window) end = std::min(end, options.window);
  }
  return end;
}

// A query block of tokens [begin, end), which lie in rows from `row` on.
class BlockTiles {
 public:
  BlockTiles(int64_t begin, int64_t end, int64_t row, int64_t window)
      : begin_(begin), end_(end), row_(row), window_(window) {}

  void Meet(const KeySegment& segment) {
    const comm::Span& keys = segment.tokens;
    const auto rows_of = [&](int64_t from, int64_t to) {
      return RowRange{segment.row + from - keys.begin, segment.row + to - keys.begin};
    };
    // Seen by all queries, and by the first ones alone.
    const int64_t seen_by_all = window_ > 0 ? end_ - window_ : 0,
                  seen_by_first = window_ > 0 ? begin_ - window_ + 1 : 0;
    const int64_t edge_begin = std::max(keys.begin, seen_by_first),
                  edge_end = std::min({keys.end, seen_by_all, begin_});
    if (edge_begin < edge_end) {
      // Key s leaves the window of query s + W.
      const int64_t last_of_first_key = edge_begin + window_ - 1;
      if (begin_ < last_of_first_key)
        Add({Queries(begin_, last_of_first_key), rows_of(edge_begin, edge_end), TileKind::kFull});
      Add({Queries(last_of_first_key, edge_end + window_ - 1), rows_of(edge_begin, edge_end),
           TileKind::kWindowEdge});
    }
    const int64_t full_begin = std::max(keys.begin, seen_by_all),
                  full_end = std::min(keys.end, begin_);
    if (full_begin < full_end)
      Add({Queries(begin_, end_), rows_of(full_begin, full_end), TileKind::kFull});
    if (keys.begin < end_ && keys.end > begin_) {
      TORCH_INTERNAL_ASSERT(keys.begin <= begin_ && end_ <= keys.end, "query block [", begin_, ", ",
                            end_, ") lies partly in keys [", keys.begin, ", ", keys.end, ")");
      Add({Queries(begin_, end_), rows_of(begin_, end_), TileKind::kCausal});
    }
  }

  std::vector<TileRows> Take() { return std::move(tiles_); }

 private:
  RowRange Queries(int64_t from, int64_t to) const {
    return {row_ + from - begin_, row_ + to - begin_};
  }

  // Joins a full tile to the one before it where their keys are neighbours: one call instead of
  // two.
  void Add(const TileRows& tile) {
    TileRows* last = tiles_.empty() ? nullptr : &tiles_.back();
    if (last != nullptr && last->kind == TileKind::kFull && tile.kind == TileKind::kFull &&
        last->queries == tile.queries && last->keys.end == tile.keys.begin) {
      last->keys.end = tile.keys.end;
    } else {
      tiles_.push_back(tile);
    }
  }

  int64_t begin_, end_, row_, window_;
  std::vector<TileRows> tiles_;
};

}  // namespace

TilePlan PlanTiles(absl::Span<const int64_t> lengths, const std::vector<comm::Span>& queries,
                   const std::vector<KeySegment>& keys, const TileOptions& options) {
  TORCH_CHECK(options.window >= 0, "attention: a window of ", options.window,
              " tokens, wanted at least 1, or 0 for none");
  TilePlan plan;
  const SegmentsOfDocument segments = ByDocument(keys);
  for (const KeySegment& segment : keys) plan.key_rows += segment.tokens.tokens();
  for (const comm::Span& span : queries) {
    const auto found = segments.find(span.document);
    for (int64_t begin = span.begin; begin < span.end;) {
      const int64_t end = BlockEnd(span, begin, lengths[span.document], options);
      if (found != segments.end()) {
        BlockTiles tiles(begin, end, plan.query_rows, options.window);
        for (const KeySegment& segment : found->second) tiles.Meet(segment);
        QueryBlock block{
            span.document, {plan.query_rows, plan.query_rows + end - begin}, tiles.Take()};
        if (!block.tiles.empty()) plan.blocks.push_back(std::move(block));
      }
      plan.query_rows += end - begin;
      begin = end;
    }
  }
  return plan;
}

std::vector<KeySegment> SeenTokens(const std::vector<comm::Span>& owned,
                                   const std::vector<comm::Span>& queries, int64_t window) {
  // The tokens that queries see, by document: runs that neither overlap nor touch, as `queries` are
  // in order.
  absl::flat_hash_map<int64_t, std::vector<comm::Span>> seen;
  for (const comm::Span& span : queries) {
    std::vector<comm::Span>& runs = seen[span.document];
    const int64_t begin = window > 0 ? std::max<int64_t>(0, span.begin - window + 1) : 0;
    if (!runs.empty() && begin <= runs.back().end) {
      runs.back().end = std::max(runs.back().end, span.end);
    } else {
      runs.push_back({span.document, begin, span.end});
    }
  }
  std::vector<KeySegment> segments;
  int64_t row = 0;
  for (const comm::Span& span : owned) {
    if (const auto found = seen.find(span.document); found != seen.end()) {
      for (const comm::Span& run : found->second) {
        const comm::Span both{span.document, std::max(span.begin, run.begin),
                              std::min(span.end, run.end)};
        if (both.begin < both.end) segments.push_back({both, row + both.begin - span.begin});
      }
    }
    row += span.tokens();
  }
  return segments;
}

double CausalTileArea(int64_t /*document*/, int64_t begin, int64_t end) {
  // sum of (t + 1) over begin <= t < end
  return static_cast<double>(end - begin) * static_cast<double>(begin + end + 1) / 2;
}

}  // namespace moonring::attention
