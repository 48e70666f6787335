#include "comm/layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"

namespace moonring::comm {
namespace {

using RankSpans = std::vector<std::vector<Span>>;

int64_t TokensOf(const std::vector<Span>& spans) {
  return std::accumulate(spans.begin(), spans.end(), int64_t{0},
                         [](int64_t sum, const Span& span) { return sum + span.tokens(); });
}

// The blocks of one document by number, and the cost of a run of blocks.
class Grid {
 public:
  Grid(int64_t document, int64_t length, const SpanCost& cost)
      : document_(document),
        length_(length),
        block_(BlockSize(length)),
        blocks_((length + block_ - 1) / block_),
        cost_before_(blocks_ + 1, 0.0) {
    for (int64_t b = 0; b < blocks_; ++b)
      cost_before_[b + 1] = cost_before_[b] + cost(document, Token(b), Token(b + 1));
  }
  int64_t blocks() const { return blocks_; }
  double Cost(int64_t from, int64_t to) const { return cost_before_[to] - cost_before_[from]; }
  double cost() const { return cost_before_.back(); }
  Span Blocks(int64_t from, int64_t to) const { return {document_, Token(from), Token(to)}; }

 private:
  int64_t Token(int64_t block) const { return std::min(block * block_, length_); }

  int64_t document_, length_, block_, blocks_;
  std::vector<double> cost_before_;
};

// Document numbers, the costliest first; ties keep the stream's order.
std::vector<int64_t> ByCost(const std::vector<Grid>& grids) {
  std::vector<int64_t> order(grids.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return grids[a].cost() > grids[b].cost(); });
  return order;
}

// The spans and the load of each rank while documents are distributed.
struct Deal {
  explicit Deal(int ranks) : spans(ranks), load(ranks, 0.0) {}

  void Give(int rank, const Grid& grid, int64_t from, int64_t to) {
    if (from == to) return;
    spans[rank].push_back(grid.Blocks(from, to));
    load[rank] += grid.Cost(from, to);
  }
  int LeastLoaded() const {
    return static_cast<int>(std::min_element(load.begin(), load.end()) - load.begin());
  }
  double Peak() const { return *std::max_element(load.begin(), load.end()); }
  void GiveWhole(const Grid& grid) { Give(LeastLoaded(), grid, 0, grid.blocks()); }

  RankSpans spans;
  std::vector<double> load;
};

// Cuts one document for zigzag ownership. A border at the front and a border at the back of the
// document move towards the middle: position c gets the blocks that both borders pass in its turn.
// After each turn the total cost of the blocks passed so far should equal the total share of the
// positions so far. Both borders are rounded to a block near the exact solution, independently of
// the earlier turns, so that rounding errors do not add up. A block near the document's end may
// still be a large part of a position's share. So the first `fill` blocks, which are the cheapest,
// are dealt out last, one by one, each to the least loaded position.
void DealZigzag(const Grid& grid, int64_t fill, Deal& deal) {
  constexpr std::array<std::pair<int, int>, 9> kShifts = {
      {{0, 0}, {1, 1}, {-1, -1}, {0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, -1}, {-1, 1}}};
  const int64_t places = static_cast<int64_t>(deal.load.size()), blocks = grid.blocks();
  const auto outside = [&](int64_t front, int64_t back) {
    return grid.Cost(fill, front) + grid.Cost(back, blocks);
  };
  const double share =
      (std::accumulate(deal.load.begin(), deal.load.end(), 0.0) + grid.Cost(fill, blocks)) /
      static_cast<double>(places);
  int64_t front = fill, back = blocks, even = fill;
  double wanted = 0;
  for (int64_t c = 0; c < places; ++c) {
    int64_t next_front = (front + back) / 2,
            next_back = next_front;  // the last position gets the rest
    if (c + 1 < places) {
      wanted += std::max(0.0, share - deal.load[c]);
      const auto mirrored = [&](int64_t border) { return blocks - (border - fill); };
      while (even + 1 <= mirrored(even + 1) && outside(even, mirrored(even)) < wanted) ++even;
      double nearest = std::numeric_limits<double>::infinity();
      for (const auto& [front_shift, back_shift] : kShifts) {
        const int64_t at_front = even + front_shift, at_back = mirrored(even) + back_shift;
        if (at_front < front || at_back > back || at_front > at_back) continue;
        const double off = std::abs(outside(at_front, at_back) - wanted);
        if (off < nearest) nearest = off, next_front = at_front, next_back = at_back;
      }
    }
    deal.Give(static_cast<int>(c), grid, front, next_front);
    deal.Give(static_cast<int>(c), grid, next_back, back);
    front = next_front;
    back = next_back;
  }
  for (int64_t b = fill; b-- > 0;) deal.Give(deal.LeastLoaded(), grid, b, b + 1);
}

// Deals out a document of n < 2P blocks over P ranks. Blocks c and n-1-c form a pair. The costliest
// pair goes to the least loaded rank, and so on; each rank gets at most one pair.
void DealSpread(const Grid& grid, Deal& deal) {
  const int64_t blocks = grid.blocks(), pairs = (blocks + 1) / 2;
  const auto cost = [&](int64_t c) {
    return grid.Cost(c, c + 1) +
           (c == blocks - 1 - c ? 0.0 : grid.Cost(blocks - 1 - c, blocks - c));
  };
  std::vector<int64_t> order(pairs);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return cost(a) > cost(b); });
  std::vector<int> ranks(deal.load.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](int a, int b) { return deal.load[a] < deal.load[b]; });
  for (int64_t i = 0; i < pairs; ++i) {
    const int64_t front = order[i], back = blocks - 1 - order[i];
    deal.Give(ranks[i], grid, front, front + 1);
    if (front != back) deal.Give(ranks[i], grid, back, back + 1);
  }
}

RankSpans Zigzag(const std::vector<Grid>& grids, int ranks) {
  constexpr double kWorthwhile = 0.99;  // of the peak: finer cuts cost more calls and transfers
  Deal cut(ranks);
  std::vector<int64_t> short_ones;
  for (const int64_t d : ByCost(grids)) {
    if (grids[d].blocks() >= 2 * ranks) {
      Deal filled = cut;
      DealZigzag(grids[d], 0, cut);
      DealZigzag(grids[d], std::min<int64_t>(grids[d].blocks() / 3, 4 * ranks), filled);
      if (filled.Peak() < kWorthwhile * cut.Peak()) cut = std::move(filled);
    } else {
      short_ones.push_back(d);
    }
  }
  // Chooses how many short documents to spread: the smallest number that lowers the largest load as
  // far as possible, or nearly so. At most the 4P costliest ones are considered (P ranks), because
  // each other one is too small a part of the whole to matter.
  const auto deal_with = [&](size_t spread) {
    Deal deal = cut;
    for (size_t i = 0; i < short_ones.size(); ++i) {
      const Grid& grid = grids[short_ones[i]];
      i < spread ? DealSpread(grid, deal) : deal.GiveWhole(grid);
    }
    return deal;
  };
  Deal best = deal_with(0);
  for (size_t spread = 1; spread <= std::min<size_t>(short_ones.size(), 4 * ranks); ++spread) {
    if (grids[short_ones[spread - 1]].blocks() < 2) continue;
    Deal deal = deal_with(spread);
    if (deal.Peak() < kWorthwhile * best.Peak()) best = std::move(deal);
  }
  return std::move(best.spans);
}

RankSpans WholeDocuments(const std::vector<Grid>& grids, int ranks) {
  Deal deal(ranks);
  for (const int64_t d : ByCost(grids)) deal.GiveWhole(grids[d]);
  return std::move(deal.spans);
}

// Returns the token nearest to `wanted` at which the span may be cut: at a block border of its
// document, or at the span's begin or end.
int64_t NearestBorder(int64_t wanted, const Span& span, int64_t length) {
  const int64_t block = BlockSize(length);
  const int64_t below = std::max(span.begin, wanted / block * block),
                above = std::min(wanted / block * block + block, span.end);
  return wanted - below <= above - wanted ? below : above;
}

// Cuts the rows of `spans`, in their order, into even runs.
RankSpans CutEvenly(const std::vector<Span>& spans, const std::vector<int64_t>& lengths,
                    int parts) {
  const int64_t tokens = TokensOf(spans);
  RankSpans runs(parts);
  if (spans.empty()) return runs;
  size_t holder = 0, next = 0;     // the span with the wanted border; the span being dealt out
  int64_t holder_row = 0;          // the first row of span `holder`
  int64_t given = spans[0].begin;  // the first token of span `next` not yet dealt out
  int64_t row = 0;                 // rows dealt out
  for (int64_t r = 0; r < parts; ++r) {
    // (r + 1) * T / P without overflow for any T that fits in memory.
    const int64_t wanted = tokens / parts * (r + 1) + tokens % parts * (r + 1) / parts;
    while (holder + 1 < spans.size() && holder_row + spans[holder].tokens() <= wanted)
      holder_row += spans[holder++].tokens();
    const int64_t at = NearestBorder(spans[holder].begin + wanted - holder_row, spans[holder],
                                     lengths[spans[holder].document]);
    const int64_t end =
        r + 1 == parts ? tokens : std::max(row, holder_row + at - spans[holder].begin);
    while (row < end) {
      const int64_t stop = std::min(spans[next].end, given + end - row);
      runs[r].push_back({spans[next].document, given, stop});
      row += stop - given;
      given = stop;
      if (given == spans[next].end && ++next < spans.size()) given = spans[next].begin;
    }
  }
  return runs;
}

RankSpans Contiguous(const std::vector<int64_t>& lengths, int ranks) {
  std::vector<Span> stream;
  for (int64_t d = 0; d < static_cast<int64_t>(lengths.size()); ++d) {
    if (lengths[d] > 0) stream.push_back({d, 0, lengths[d]});
  }
  return CutEvenly(stream, lengths, ranks);
}

// Sorts spans in the order of the stream and merges adjacent ones.
void Tidy(std::vector<Span>& spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::pair(a.document, a.begin) < std::pair(b.document, b.begin);
  });
  std::vector<Span> joined;
  for (const Span& span : spans) {
    if (!joined.empty() && joined.back().document == span.document &&
        joined.back().end == span.begin) {
      joined.back().end = span.end;
    } else {
      joined.push_back(span);
    }
  }
  spans = std::move(joined);
}

RankSpans DealOut(const std::vector<int64_t>& lengths, int places, Ownership ownership,
                  const SpanCost& cost) {
  if (ownership == Ownership::kContiguous) return Contiguous(lengths, places);
  std::vector<Grid> grids;
  grids.reserve(lengths.size());
  for (size_t d = 0; d < lengths.size(); ++d) grids.emplace_back(d, lengths[d], cost);
  return ownership == Ownership::kZigzag ? Zigzag(grids, places) : WholeDocuments(grids, places);
}

// Divides the spans of each context position over its ranks on the heads axis.
RankSpans OverHeads(const RankSpans& context_spans, const std::vector<int64_t>& lengths,
                    const Division& division) {
  RankSpans spans(division.ranks());
  for (int context = 0; context < division.contexts; ++context) {
    RankSpans runs = division.heads == 1
                         ? RankSpans{context_spans[context]}
                         : CutEvenly(context_spans[context], lengths, division.heads);
    for (int head = 0; head < division.heads; ++head)
      spans[division.Rank(context, head)] = std::move(runs[head]);
  }
  return spans;
}

std::vector<int64_t> Offsets(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> offsets(lengths.size() + 1, 0);
  std::partial_sum(lengths.begin(), lengths.end(), offsets.begin() + 1);
  return offsets;
}

// INVALID_ARGUMENT if a length is negative.
absl::Status ValidateLengths(const std::vector<int64_t>& lengths) {
  for (size_t d = 0; d < lengths.size(); ++d) {
    if (lengths[d] < 0)
      return absl::InvalidArgumentError(
          absl::StrCat("layout: document ", d, " has ", lengths[d], " tokens"));
  }
  return absl::OkStatus();
}

// Converts spans of documents that begin at `from` into spans of documents, of the same stream,
// that begin at `to`.
std::vector<Span> InOtherDocuments(const std::vector<Span>& spans, const std::vector<int64_t>& from,
                                   const std::vector<int64_t>& to) {
  std::vector<Span> cut;
  for (const Span& span : spans) {
    int64_t begin = from[span.document] + span.begin;
    const int64_t end = begin + span.tokens();
    int64_t document = std::upper_bound(to.begin(), to.end(), begin) - to.begin() - 1;
    while (begin < end) {
      const int64_t stop = std::min(end, to[document + 1]);
      if (begin < stop) cut.push_back({document, begin - to[document], stop - to[document]});
      begin = stop;
      ++document;
    }
  }
  Tidy(cut);
  return cut;
}

}  // namespace

absl::string_view OwnershipName(Ownership ownership) {
  switch (ownership) {
    case Ownership::kContiguous:
      return "contiguous";
    case Ownership::kZigzag:
      return "zigzag";
    case Ownership::kWholeDocuments:
      return "whole documents";
  }
  return "unknown";
}

int64_t BlockSize(int64_t document_length) {
  const auto part = static_cast<uint64_t>(std::max<int64_t>(document_length, 64) / 64);
  return std::clamp<int64_t>(static_cast<int64_t>(std::bit_floor(part)), 64, 256);
}

Layout::Layout(std::vector<int64_t> lengths, Division division,
               std::vector<std::vector<Span>> context_spans, std::vector<std::vector<Span>> spans)
    : lengths_(std::move(lengths)),
      offsets_(Offsets(lengths_)),
      division_(division),
      context_spans_(std::move(context_spans)),
      spans_(std::move(spans)) {
  for (const std::vector<Span>& owned : spans_) local_tokens_.push_back(TokensOf(owned));
}

absl::StatusOr<std::shared_ptr<const Layout>> Layout::Create(std::vector<int64_t> lengths,
                                                             Division division, SpanCost cost) {
  if (division.contexts < 1 || division.heads < 1) {
    return absl::InvalidArgumentError(absl::StrCat("layout: ranks=", division.contexts, " x ",
                                                   division.heads, ", expected at least 1"));
  }
  if (absl::Status status = ValidateLengths(lengths); !status.ok()) return status;
  if (cost == nullptr)
    cost = [](int64_t, int64_t begin, int64_t end) { return static_cast<double>(end - begin); };
  RankSpans context_spans = DealOut(lengths, division.contexts, division.ownership, cost);
  for (std::vector<Span>& spans : context_spans) Tidy(spans);
  RankSpans spans = OverHeads(context_spans, lengths, division);
  return std::shared_ptr<const Layout>(
      new Layout(std::move(lengths), division, std::move(context_spans), std::move(spans)));
}

absl::StatusOr<std::shared_ptr<const Layout>> Layout::WithDocuments(
    std::vector<int64_t> lengths) const {
  if (absl::Status status = ValidateLengths(lengths); !status.ok()) return status;
  const std::vector<int64_t> offsets = Offsets(lengths);
  if (offsets.back() != tokens()) {
    return absl::InvalidArgumentError(absl::StrCat("layout: other documents of ", offsets.back(),
                                                   " tokens, the stream has ", tokens()));
  }
  const auto all = [&](const RankSpans& owned) {
    RankSpans cut;
    for (const std::vector<Span>& spans : owned)
      cut.push_back(InOtherDocuments(spans, offsets_, offsets));
    return cut;
  };
  RankSpans context_spans = all(context_spans_), spans = all(spans_);
  return std::shared_ptr<const Layout>(
      new Layout(std::move(lengths), division_, std::move(context_spans), std::move(spans)));
}

int64_t Layout::context_tokens(int context) const { return TokensOf(context_spans(context)); }

at::Tensor Layout::Index(int rank) const {
  at::Tensor index_T = at::empty({local_tokens(rank)}, at::kLong);
  int64_t* row = index_T.mutable_data_ptr<int64_t>();
  for (const Span& span : spans(rank)) {
    std::iota(row, row + span.tokens(), offsets_[span.document] + span.begin);
    row += span.tokens();
  }
  return index_T;
}

at::Tensor Layout::Cut(const at::Tensor& stream_T, int rank) const {
  TORCH_CHECK(stream_T.dim() >= 1 && stream_T.size(0) == tokens(), "Cut: a tensor of shape ",
              stream_T.sizes(), ", documents of ", tokens(), " tokens");
  // Contiguous runs of the stream: spans that are adjacent across a document's end are merged.
  std::vector<std::pair<int64_t, int64_t>> runs;
  for (const Span& span : spans(rank)) {
    const int64_t begin = offsets_[span.document] + span.begin,
                  end = offsets_[span.document] + span.end;
    if (!runs.empty() && runs.back().second == begin) {
      runs.back().second = end;
    } else {
      runs.emplace_back(begin, end);
    }
  }
  if (runs.empty()) return stream_T.slice(0, 0, 0);
  std::vector<at::Tensor> rows;
  rows.reserve(runs.size());
  for (const auto& [begin, end] : runs) rows.push_back(stream_T.slice(0, begin, end));
  return rows.size() == 1 ? rows[0] : at::cat(rows);
}

at::Tensor Layout::Join(const std::vector<at::Tensor>& locals) const {
  TORCH_CHECK(static_cast<int>(locals.size()) == ranks(), "Join: ", locals.size(), " parts for ",
              ranks(), " ranks");
  struct Piece {
    int64_t begin;
    at::Tensor rows;
  };
  std::vector<Piece> pieces;
  for (int r = 0; r < ranks(); ++r) {
    TORCH_CHECK(locals[r].dim() >= 1 && locals[r].size(0) == local_tokens(r), "Join: rank ", r,
                " has shape ", locals[r].sizes(), ", owns ", local_tokens(r), " tokens");
    int64_t row = 0;
    for (const Span& span : spans(r)) {
      pieces.push_back(
          {offsets_[span.document] + span.begin, locals[r].slice(0, row, row + span.tokens())});
      row += span.tokens();
    }
  }
  if (pieces.empty()) return locals[0];
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  std::vector<at::Tensor> rows;
  rows.reserve(pieces.size());
  for (Piece& piece : pieces) rows.push_back(std::move(piece.rows));
  return rows.size() == 1 ? rows[0] : at::cat(rows);
}

}  // namespace moonring::comm
