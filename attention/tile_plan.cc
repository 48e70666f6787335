#include "attention/tile_plan.h"

#include <algorithm>

#include <c10/util/Exception.h>

#include "absl/container/flat_hash_map.h"

namespace moonring::attention {
namespace {

// Tokens [begin, end) of a document that lie in a key buffer from `row` on.
struct Segment {
  int64_t document = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t row = 0;
};

using SegmentsOfDocument = absl::flat_hash_map<int64_t, std::vector<Segment>>;

SegmentsOfDocument ByDocument(const std::vector<Segment>& segments) {
  SegmentsOfDocument result;
  for (const Segment& segment : segments) result[segment.document].push_back(segment);
  for (auto& [document, of_document] : result) {
    std::sort(of_document.begin(), of_document.end(), [](const Segment& a, const Segment& b) { return a.begin < b.begin; });
  }
  return result;
}

// The end of the grid block that holds token `at`.
int64_t BlockEnd(int64_t length, int64_t at) {
  const int64_t block = comm::BlockSize(length);
  return (at / block + 1) * block;
}

// Joins a full tile to the one before it where their rows are neighbours: one call instead of two.
void AddFullTile(RowRange keys, std::vector<KeyTile>& tiles) {
  if (!tiles.empty() && tiles.back().kind == TileKind::kFull && tiles.back().keys.end == keys.begin) {
    tiles.back().keys.end = keys.end;
  } else {
    tiles.push_back({keys, TileKind::kFull});
  }
}

// The tiles of the query block of tokens [begin, end).
std::vector<KeyTile> TilesOfBlock(int64_t begin, int64_t end, const std::vector<Segment>& keys) {
  std::vector<KeyTile> tiles;
  for (const Segment& segment : keys) {
    if (segment.begin >= end) break;
    const int64_t before = std::min(segment.end, begin) - segment.begin;
    if (before > 0) AddFullTile({segment.row, segment.row + before}, tiles);
    if (segment.end > begin) {
      TORCH_INTERNAL_ASSERT(segment.begin <= begin && end <= segment.end, "query block [", begin, ", ", end, ") lies partly in keys [", segment.begin, ", ",
                            segment.end, ")");
      const int64_t row = segment.row + begin - segment.begin;
      tiles.push_back({{row, row + end - begin}, TileKind::kCausal});
    }
  }
  return tiles;
}

TilePlan PlanTiles(absl::Span<const int64_t> lengths, const std::vector<comm::Span>& queries, const std::vector<Segment>& keys) {
  TilePlan plan;
  const SegmentsOfDocument segments = ByDocument(keys);
  for (const Segment& segment : keys) plan.key_rows += segment.end - segment.begin;
  for (const comm::Span& span : queries) {
    const auto found = segments.find(span.document);
    for (int64_t begin = span.begin; begin < span.end;) {
      const int64_t end = std::min(span.end, BlockEnd(lengths[span.document], begin));
      if (found != segments.end()) {
        std::vector<KeyTile> tiles = TilesOfBlock(begin, end, found->second);
        const RowRange rows{plan.query_rows, plan.query_rows + end - begin};
        if (!tiles.empty()) plan.blocks.push_back({span.document, rows, std::move(tiles)});
      }
      plan.query_rows += end - begin;
      begin = end;
    }
  }
  return plan;
}

// A rank's own spans as keys.
std::vector<Segment> OwnSegments(const std::vector<comm::Span>& spans) {
  std::vector<Segment> segments;
  int64_t row = 0;
  for (const comm::Span& span : spans) {
    segments.push_back({span.document, span.begin, span.end, row});
    row += span.end - span.begin;
  }
  return segments;
}

// What of `owner`'s rows some query of `reader` sees: in each document, the tokens before the reader's last block.
// `row` is the owner's local row.
std::vector<Segment> SegmentsNeeded(const comm::Layout& layout, int owner, int reader) {
  absl::flat_hash_map<int64_t, int64_t> last_block;  // document -> begin of the reader's last block in it
  for (const comm::Span& span : layout.spans(reader)) {
    const int64_t block = comm::BlockSize(layout.lengths()[span.document]);
    int64_t& last = last_block.try_emplace(span.document, 0).first->second;
    last = std::max({last, span.begin, (span.end - 1) / block * block});
  }
  std::vector<Segment> needed;
  for (Segment segment : OwnSegments(layout.spans(owner))) {
    const auto found = last_block.find(segment.document);
    if (found == last_block.end()) continue;
    segment.end = std::min(segment.end, found->second);
    if (segment.begin < segment.end) needed.push_back(segment);
  }
  return needed;
}

bool AnyTransfer(const comm::Layout& layout, int step) {
  for (int owner = 0; owner < layout.ranks(); ++owner) {
    if (!SegmentsNeeded(layout, owner, (owner + step) % layout.ranks()).empty()) return true;
  }
  return false;
}

}  // namespace

TilePlan PlanWholeDocuments(absl::Span<const int64_t> lengths) {
  std::vector<comm::Span> spans;
  for (int64_t document = 0; document < static_cast<int64_t>(lengths.size()); ++document) spans.push_back({document, 0, lengths[document]});
  return PlanTiles(lengths, spans, OwnSegments(spans));
}

std::vector<RowRange> RowsNeeded(const comm::Layout& layout, int owner, int reader) {
  std::vector<RowRange> rows;
  for (const Segment& segment : SegmentsNeeded(layout, owner, reader)) {
    const RowRange range{segment.row, segment.row + segment.end - segment.begin};
    if (!rows.empty() && rows.back().end == range.begin) {
      rows.back().end = range.end;
    } else {
      rows.push_back(range);
    }
  }
  return rows;
}

std::vector<RingStep> PlanRing(const comm::Layout& layout, int rank) {
  const int ranks = layout.ranks();
  const std::vector<comm::Span>& queries = layout.spans(rank);
  std::vector<RingStep> steps;
  steps.push_back({.to = rank, .from = rank, .tiles = PlanTiles(layout.lengths(), queries, OwnSegments(queries))});
  for (int s = 1; s < ranks; ++s) {
    if (!AnyTransfer(layout, s)) continue;
    RingStep step{.to = (rank + s) % ranks, .from = (rank + ranks - s) % ranks};
    step.send = RowsNeeded(layout, rank, step.to);
    for (const RowRange& range : step.send) step.send_rows += range.rows();
    std::vector<Segment> received = SegmentsNeeded(layout, step.from, rank);
    for (Segment& segment : received) {  // owner's rows -> rows of the buffer that arrives
      segment.row = step.receive_rows;
      step.receive_rows += segment.end - segment.begin;
    }
    step.tiles = PlanTiles(layout.lengths(), queries, received);
    steps.push_back(std::move(step));
  }
  return steps;
}

double CausalTileArea(int64_t /*document*/, int64_t begin, int64_t end) {
  // sum of (t + 1) over begin <= t < end
  return static_cast<double>(end - begin) * static_cast<double>(begin + end + 1) / 2;
}

}  // namespace moonring::attention
