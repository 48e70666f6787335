#include "attention/kernels/tile_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <c10/util/Exception.h>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"

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

// Sorts spans of one document and joins those that overlap or touch.
void Unite(std::vector<comm::Span>& runs) {
  const auto is_before = [](const comm::Span& a, const comm::Span& b) { return a.begin < b.begin; };
  if (!std::is_sorted(runs.begin(), runs.end(), is_before))
    std::sort(runs.begin(), runs.end(), is_before);
  size_t last = 0;
  for (const comm::Span& run : runs) {
    if (run.begin <= runs[last].end) {
      runs[last].end = std::max(runs[last].end, run.end);
    } else {
      runs[++last] = run;
    }
  }
  runs.resize(last + 1);
}

// The end of the query block that begins at token `at` of the span.
int64_t BlockEnd(const comm::Span& span, int64_t at, int64_t length, const TileOptions& options) {
  int64_t first = span.begin, end = span.end;
  const int64_t prefix = options.mask != nullptr ? options.mask->prefix(span.document) : 0;
  if (options.grid == TileGrid::kBlocks) {
    const int64_t block = comm::BlockSize(length);
    first = at / block * block;
    end = std::min(end, first + block);
  }
  if (at < prefix)
    return std::min(end, prefix);  // queries in a prefix attend to all of it,
                                   // whatever the window
  if (options.window > 0) {
    end = std::min(end, first + ((at - first) / options.window + 1) * options.window);
    if (at < options.window) end = std::min(end, options.window);
  }
  return end;
}

// A document that a query block attends to: the block's own, or one of its ancestors (its parent,
// whose first tokens it shares as a prefix, the parent's parent, and so on).
struct Reach {
  int64_t document = 0;
  int64_t tokens = 0;  // only the first `tokens` tokens may be attended to
  int64_t prefix = 0;  // all queries attend to the first `prefix` of these
  int64_t shift = 0;   // a token's index plus `shift` is its distance from the first token of the
                       // queries' document, negative for tokens of an ancestor
};

// The documents that a query block attends to, in the order in which their tiles are made.
absl::InlinedVector<Reach, 1> ReachesOf(int64_t document, int64_t length, const Mask* mask) {
  if (mask == nullptr) return {{document, length}};
  absl::InlinedVector<Reach, 1> reaches;
  for (const Mask::Before& before : mask->before(document)) {
    reaches.push_back({before.document, before.tokens,
                       std::min(before.tokens, mask->prefix(before.document)),
                       before.place - mask->place(document)});
  }
  reaches.push_back({document, length, mask->prefix(document)});
  return reaches;
}

// The tiles of a query block of tokens [begin, end), which are stored in rows from `row` on.
class BlockTiles {
 public:
  BlockTiles(int64_t begin, int64_t end, int64_t row, int64_t window)
      : begin_(begin), end_(end), row_(row), window_(window) {}

  void Meet(const KeySegment& segment, const Reach& reach) {
    // From here on, tokens are numbered by place (mask.h), relative to the first token of the
    // queries' document.
    int64_t first = segment.tokens.begin + reach.shift;
    const int64_t end = std::min(segment.tokens.end, reach.tokens) + reach.shift;
    if (first >= end) return;
    const auto rows_of = [&](int64_t from, int64_t to) {
      const int64_t row = segment.row - segment.tokens.begin - reach.shift;
      return RowRange{row + from, row + to};
    };
    if (const int64_t prefix_end = std::min(end, reach.prefix + reach.shift); first < prefix_end) {
      Add({Queries(begin_, end_), rows_of(first, prefix_end), TileKind::kFull}, reach.document);
      first = prefix_end;
      // The tile of the prefix is not joined with a later tile: some buffers lack the keys between
      // prefix and window, and the kernel calls must not depend on that.
      if (window_ > 0) document_ = -1;
    }
    // The first key that all queries attend to, and the first key that the first query attends to.
    const int64_t seen_by_all = window_ > 0 ? end_ - window_ : first,
                  seen_by_first = window_ > 0 ? begin_ - window_ + 1 : first;
    const int64_t edge_begin = std::max(first, seen_by_first),
                  edge_end = std::min({end, seen_by_all, begin_});
    if (edge_begin < edge_end) {
      // Query s + W and later queries cannot attend to key s, which is outside their window.
      const int64_t last_of_first_key = edge_begin + window_ - 1;
      if (begin_ < last_of_first_key) {
        Add({Queries(begin_, last_of_first_key), rows_of(edge_begin, edge_end), TileKind::kFull},
            reach.document);
      }
      Add({Queries(last_of_first_key, edge_end + window_ - 1), rows_of(edge_begin, edge_end),
           TileKind::kWindowEdge},
          reach.document);
    }
    const int64_t full_begin = std::max(first, seen_by_all), full_end = std::min(end, begin_);
    if (full_begin < full_end) {
      Add({Queries(begin_, end_), rows_of(full_begin, full_end), TileKind::kFull}, reach.document);
    }
    if (first < end_ && end > begin_) {
      TORCH_INTERNAL_ASSERT(first <= begin_ && end_ <= end, "query block [", begin_, ", ", end_,
                            ") overlaps partially with keys [", first, ", ", end, ")");
      Add({Queries(begin_, end_), rows_of(begin_, end_), TileKind::kCausal}, reach.document);
    }
  }

  std::vector<TileRows> Take() { return std::move(tiles_); }

 private:
  RowRange Queries(int64_t from, int64_t to) const {
    return {row_ + from - begin_, row_ + to - begin_};
  }

  // Adds a tile. A full tile is joined to the previous full tile if their keys are adjacent, for
  // one kernel call instead of two. Tiles with keys of different documents are not joined, since
  // the order of documents in a buffer depends on the strategy.
  void Add(const TileRows& tile, int64_t document) {
    const bool joins = std::exchange(document_, document) == document;
    TileRows* last = tiles_.empty() ? nullptr : &tiles_.back();
    if (joins && last != nullptr && last->kind == TileKind::kFull && tile.kind == TileKind::kFull &&
        last->queries == tile.queries && last->keys.end == tile.keys.begin) {
      last->keys.end = tile.keys.end;
    } else {
      tiles_.push_back(tile);
    }
  }

  int64_t begin_, end_, row_, window_;
  int64_t document_ = -1;  // document of the last tile's keys; -1: the next tile is not joined
  std::vector<TileRows> tiles_;
};

// Returns the rows of the keys that a span attends to, if these are one range of rows; else
// nullopt.
std::optional<RowRange> RunSeen(const comm::Span& span, const std::vector<KeySegment>& segments,
                                int64_t window) {
  const int64_t first = window > 0 ? std::max<int64_t>(0, span.begin - window + 1) : 0;
  for (const KeySegment& segment : segments) {
    if (segment.tokens.begin <= first && span.end <= segment.tokens.end)
      return RowRange{segment.row + first - segment.tokens.begin,
                      segment.row + span.end - segment.tokens.begin};
  }
  return std::nullopt;
}

}  // namespace

TilePlan PlanTiles(absl::Span<const int64_t> lengths, const std::vector<comm::Span>& queries,
                   const std::vector<KeySegment>& keys, const TileOptions& options) {
  TORCH_CHECK(options.window >= 0, "attention: a window of ", options.window,
              " tokens, expected at least 1, or 0 for none");
  TilePlan plan;
  const SegmentsOfDocument segments = ByDocument(keys);
  for (const KeySegment& segment : keys) plan.key_rows += segment.tokens.tokens();
  for (const comm::Span& span : queries) {
    if (options.grid == TileGrid::kBands && options.mask == nullptr && span.tokens() > 0) {
      const auto found = segments.find(span.document);
      const std::optional<RowRange> run =
          found == segments.end() ? std::nullopt : RunSeen(span, found->second, options.window);
      if (run.has_value()) {
        const RowRange rows{plan.query_rows, plan.query_rows + span.tokens()};
        plan.blocks.push_back(
            {span.document, rows, {{rows, *run, TileKind::kBand, options.window}}});
        plan.query_rows = rows.end;
        continue;
      }
    }
    // The documents that the span attends to and that have keys among `segments`.
    absl::InlinedVector<std::pair<Reach, const std::vector<KeySegment>*>, 1> seen;
    for (const Reach& reach : ReachesOf(span.document, lengths[span.document], options.mask)) {
      const auto found = segments.find(reach.document);
      if (found != segments.end()) seen.emplace_back(reach, &found->second);
    }
    const int64_t family =
        options.mask != nullptr ? options.mask->family(span.document) : span.document;
    for (int64_t begin = span.begin; begin < span.end;) {
      const int64_t end = BlockEnd(span, begin, lengths[span.document], options);
      if (!seen.empty()) {
        BlockTiles tiles(begin, end, plan.query_rows, options.window);
        for (const auto& [reach, keys_of] : seen) {
          for (const KeySegment& segment : *keys_of) tiles.Meet(segment, reach);
        }
        QueryBlock block{family, {plan.query_rows, plan.query_rows + end - begin}, tiles.Take()};
        if (!block.tiles.empty()) plan.blocks.push_back(std::move(block));
      }
      plan.query_rows += end - begin;
      begin = end;
    }
  }
  return plan;
}

std::vector<KeySegment> SeenTokens(const std::vector<comm::Span>& owned,
                                   const std::vector<comm::Span>& queries,
                                   const TileOptions& options) {
  // The tokens that queries attend to, by document: ranges that neither overlap nor touch.
  absl::flat_hash_map<int64_t, std::vector<comm::Span>> seen;
  const auto see = [&](const comm::Span& run) {
    if (run.begin >= run.end) return;
    std::vector<comm::Span>& runs = seen[run.document];
    if (!runs.empty() && runs.back().begin <= run.begin && run.begin <= runs.back().end) {
      runs.back().end = std::max(runs.back().end, run.end);
    } else {
      runs.push_back(run);
    }
  };
  for (const comm::Span& span : queries) {
    for (const Reach& reach : ReachesOf(span.document, span.end, options.mask)) {
      const int64_t first = options.window > 0 ? span.begin - options.window + 1 - reach.shift : 0;
      see({reach.document, 0, reach.prefix});
      see({reach.document, std::max<int64_t>(0, first), reach.tokens});
    }
  }
  // Without a mask the ranges are already in order, since `queries` are.
  if (options.mask != nullptr) {
    for (auto& [document, runs] : seen) Unite(runs);
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
