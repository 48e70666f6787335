#include "comm/layout.h"

#include <algorithm>
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

// Its blocks by number, and what a run of them costs.
class Grid {
 public:
  Grid(int64_t document, int64_t length, const SpanCost& cost)
      : document_(document), length_(length), block_(BlockSize(length)), blocks_((length + block_ - 1) / block_), cost_before_(blocks_ + 1, 0.0) {
    for (int64_t b = 0; b < blocks_; ++b) cost_before_[b + 1] = cost_before_[b] + cost(document, Token(b), Token(b + 1));
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

// Document numbers, the costliest first; ties in the stream's order.
std::vector<int64_t> ByCost(const std::vector<Grid>& grids) {
  std::vector<int64_t> order(grids.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return grids[a].cost() > grids[b].cost(); });
  return order;
}

// Spans and load of each rank, while documents are being dealt out.
struct Deal {
  explicit Deal(int ranks) : spans(ranks), load(ranks, 0.0) {}

  void Give(int rank, const Grid& grid, int64_t from, int64_t to) {
    if (from == to) return;
    spans[rank].push_back(grid.Blocks(from, to));
    load[rank] += grid.Cost(from, to);
  }
  int LeastLoaded() const { return static_cast<int>(std::min_element(load.begin(), load.end()) - load.begin()); }
  double Peak() const { return *std::max_element(load.begin(), load.end()); }
  void GiveWhole(const Grid& grid) { Give(LeastLoaded(), grid, 0, grid.blocks()); }

  RankSpans spans;
  std::vector<double> load;
};

// Rank r takes chunks r and 2P-1-r of 2P, from the outermost pair inwards. Chunks are of k blocks, k the even share of what
// is left, or one more or less: of the near-equal pairs that whose cost comes nearest to an even share of all work left,
// earlier documents' load included.
void DealZigzag(const Grid& grid, Deal& deal) {
  const int ranks = static_cast<int>(deal.load.size());
  int64_t front = 0, back = grid.blocks();
  double load_left = std::accumulate(deal.load.begin(), deal.load.end(), 0.0);
  for (int r = 0; r < ranks; ++r) {
    const double target = (load_left + grid.Cost(front, back)) / (ranks - r) - deal.load[r];
    load_left -= deal.load[r];
    int64_t front_size = (back - front + 1) / 2, back_size = (back - front) / 2;  // the innermost rank takes what is left
    if (r + 1 < ranks) {
      const int64_t k = (back - front) / (2 * (ranks - r));
      double nearest = std::numeric_limits<double>::infinity();
      for (const auto& [more_front, more_back] : {std::pair(0, 0), {1, 0}, {0, 1}, {1, 1}, {1, -1}, {-1, 1}}) {
        const int64_t f = k + more_front, b = k + more_back;
        if (f < 0 || b < 0 || f + b > back - front) continue;
        const double off = std::abs(grid.Cost(front, front + f) + grid.Cost(back - b, back) - target);
        if (off < nearest) nearest = off, front_size = f, back_size = b;
      }
    }
    deal.Give(r, grid, front, front + front_size);
    deal.Give(r, grid, back - back_size, back);
    front += front_size;
    back -= back_size;
  }
}

// A document of fewer than 2P blocks: blocks c and n-1-c go together, the costliest pair to the least loaded rank, no rank
// taking two pairs.
void DealSpread(const Grid& grid, Deal& deal) {
  const int64_t blocks = grid.blocks(), pairs = (blocks + 1) / 2;
  const auto cost = [&](int64_t c) { return grid.Cost(c, c + 1) + (c == blocks - 1 - c ? 0.0 : grid.Cost(blocks - 1 - c, blocks - c)); };
  std::vector<int64_t> order(pairs);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return cost(a) > cost(b); });
  std::vector<int> ranks(deal.load.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return deal.load[a] < deal.load[b]; });
  for (int64_t i = 0; i < pairs; ++i) {
    const int64_t front = order[i], back = blocks - 1 - order[i];
    deal.Give(ranks[i], grid, front, front + 1);
    if (front != back) deal.Give(ranks[i], grid, back, back + 1);
  }
}

RankSpans Zigzag(const std::vector<Grid>& grids, int ranks) {
  Deal cut(ranks);
  std::vector<int64_t> short_ones;
  for (const int64_t d : ByCost(grids)) {
    if (grids[d].blocks() >= 2 * ranks) {
      DealZigzag(grids[d], cut);
    } else {
      short_ones.push_back(d);
    }
  }
  // How many of the short ones to spread: as few as give the least peak to within a hundredth (a spread document costs
  // transfers). Past the first 4P each is too small a part of the whole to matter.
  constexpr double kWorthwhile = 0.99;
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

// The place on the grid nearest to token `wanted` of the stream; `document` is the one that holds it.
int64_t NearestBorder(int64_t wanted, int64_t offset, int64_t length) {
  const int64_t block = BlockSize(length), inside = wanted - offset;
  const int64_t below = inside / block * block, above = std::min(below + block, length);
  return offset + (inside - below <= above - inside ? below : above);
}

RankSpans Contiguous(const std::vector<int64_t>& lengths, const std::vector<int64_t>& offsets, int ranks) {
  const int64_t tokens = offsets.back();
  RankSpans spans(ranks);
  int64_t begin = 0, d = 0, holder = 0;
  for (int r = 0; r < ranks; ++r) {
    // r * T / P without overflow for any T that fits in memory.
    const int64_t wanted = tokens / ranks * (r + 1) + tokens % ranks * (r + 1) / ranks;
    while (holder + 1 < static_cast<int64_t>(lengths.size()) && offsets[holder + 1] <= wanted) ++holder;
    const int64_t end = r + 1 == ranks ? tokens : std::max(begin, NearestBorder(wanted, offsets[holder], lengths[holder]));
    while (begin < end) {
      const int64_t stop = std::min(end, offsets[d + 1]);
      spans[r].push_back({d, begin - offsets[d], stop - offsets[d]});
      begin = stop;
      if (begin == offsets[d + 1]) ++d;
    }
  }
  return spans;
}

// In the order of the stream, adjacent ones joined.
void Tidy(std::vector<Span>& spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return std::pair(a.document, a.begin) < std::pair(b.document, b.begin); });
  std::vector<Span> joined;
  for (const Span& span : spans) {
    if (!joined.empty() && joined.back().document == span.document && joined.back().end == span.begin) {
      joined.back().end = span.end;
    } else {
      joined.push_back(span);
    }
  }
  spans = std::move(joined);
}

RankSpans DealOut(const std::vector<int64_t>& lengths, const std::vector<int64_t>& offsets, int ranks, Ownership ownership, const SpanCost& cost) {
  if (lengths.empty()) return RankSpans(ranks);
  if (ownership == Ownership::kContiguous) return Contiguous(lengths, offsets, ranks);
  std::vector<Grid> grids;
  grids.reserve(lengths.size());
  for (size_t d = 0; d < lengths.size(); ++d) grids.emplace_back(d, lengths[d], cost);
  return ownership == Ownership::kZigzag ? Zigzag(grids, ranks) : WholeDocuments(grids, ranks);
}

std::vector<int64_t> Offsets(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> offsets(lengths.size() + 1, 0);
  std::partial_sum(lengths.begin(), lengths.end(), offsets.begin() + 1);
  return offsets;
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
  const auto sixteenth = static_cast<uint64_t>(std::max<int64_t>(document_length, 16) / 16);
  return std::clamp<int64_t>(static_cast<int64_t>(std::bit_floor(sixteenth)), 64, 512);
}

Layout::Layout(std::vector<int64_t> lengths, Ownership ownership, std::vector<std::vector<Span>> spans)
    : lengths_(std::move(lengths)), offsets_(Offsets(lengths_)), ownership_(ownership), spans_(std::move(spans)) {
  for (std::vector<Span>& owned : spans_) {
    Tidy(owned);
    local_tokens_.push_back(std::accumulate(owned.begin(), owned.end(), int64_t{0}, [](int64_t sum, const Span& span) { return sum + span.tokens(); }));
  }
}

absl::StatusOr<std::shared_ptr<const Layout>> Layout::Create(std::vector<int64_t> lengths, int ranks, Ownership ownership, SpanCost cost) {
  if (ranks < 1) return absl::InvalidArgumentError(absl::StrCat("layout: ranks=", ranks, ", wanted at least 1"));
  for (size_t d = 0; d < lengths.size(); ++d) {
    if (lengths[d] < 1) return absl::InvalidArgumentError(absl::StrCat("layout: document ", d, " has ", lengths[d], " tokens, wanted at least 1"));
  }
  if (cost == nullptr) cost = [](int64_t, int64_t begin, int64_t end) { return static_cast<double>(end - begin); };
  RankSpans spans = DealOut(lengths, Offsets(lengths), ranks, ownership, cost);
  return std::shared_ptr<const Layout>(new Layout(std::move(lengths), ownership, std::move(spans)));
}

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
  TORCH_CHECK(stream_T.dim() >= 1 && stream_T.size(0) == tokens(), "Cut: a tensor of shape ", stream_T.sizes(), ", documents of ", tokens(), " tokens");
  // Runs of the stream: spans that meet across a document's end are one.
  std::vector<std::pair<int64_t, int64_t>> runs;
  for (const Span& span : spans(rank)) {
    const int64_t begin = offsets_[span.document] + span.begin, end = offsets_[span.document] + span.end;
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
  TORCH_CHECK(static_cast<int>(locals.size()) == ranks(), "Join: ", locals.size(), " parts for ", ranks(), " ranks");
  struct Piece {
    int64_t begin;
    at::Tensor rows;
  };
  std::vector<Piece> pieces;
  for (int r = 0; r < ranks(); ++r) {
    TORCH_CHECK(locals[r].dim() >= 1 && locals[r].size(0) == local_tokens(r), "Join: rank ", r, " has shape ", locals[r].sizes(), ", owns ", local_tokens(r),
                " tokens");
    int64_t row = 0;
    for (const Span& span : spans(r)) {
      pieces.push_back({offsets_[span.document] + span.begin, locals[r].slice(0, row, row + span.tokens())});
      row += span.tokens();
    }
  }
  if (pieces.empty()) return locals[0];
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  std::vector<at::Tensor> rows;
  rows.reserve(pieces.size());
  for (Piece& piece : pieces) rows.push_back(std::move(piece.rows));
  return rows.size() == 1 ? rows[0] : at::cat(rows);
}

}  // namespace moonring::comm
