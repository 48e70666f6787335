#include "comm/row_exchange.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "base/autograd/custom_function.h"
#include "base/status/torch_status.h"

namespace moonring::comm {
namespace {

// A source span, and the local row of its rank at which it begins.
struct Held {
  Span span;
  int rank;
  int64_t row;
};

// The spans of `rank` with their first local rows, in the order given.
std::vector<Held> HeldBy(const std::vector<Span>& spans, int rank) {
  std::vector<Held> held;
  int64_t row = 0;
  for (const Span& span : spans) {
    if (span.tokens() > 0) held.push_back({span, rank, row});
    row += span.tokens();
  }
  return held;
}

void SortByPlace(std::vector<Held>& held) {
  std::sort(held.begin(), held.end(), [](const Held& a, const Held& b) {
    return std::pair(a.span.document, a.span.begin) < std::pair(b.span.document, b.span.begin);
  });
}

// For each held span that overlaps `wanted`, calls found(held, begin, end) with the common tokens,
// in order. Returns the number of tokens found.
template <typename Found>
int64_t ForEachWithin(const std::vector<Held>& held, const Span& wanted, const Found& found) {
  auto at = std::upper_bound(held.begin(), held.end(), wanted, [](const Span& span, const Held& h) {
    return std::pair(span.document, span.begin) < std::pair(h.span.document, h.span.end);
  });
  int64_t rows = 0;
  for (; at != held.end() && at->span.document == wanted.document && at->span.begin < wanted.end;
       ++at) {
    const int64_t begin = std::max(wanted.begin, at->span.begin),
                  end = std::min(wanted.end, at->span.end);
    if (begin >= end) continue;
    found(*at, begin, end);
    rows += end - begin;
  }
  return rows;
}

// Collects rows for a RowMap::Places.
struct Runs {
  std::vector<std::pair<int64_t, int64_t>> runs;  // first row, rows
  void Add(int64_t first, int64_t rows) {
    if (!runs.empty() && runs.back().first + runs.back().second == first) {
      runs.back().second += rows;
    } else {
      runs.emplace_back(first, rows);
    }
  }
  RowMap::Places Done() const {
    RowMap::Places places;
    for (const auto& [first, rows] : runs) places.rows += rows;
    if (runs.empty()) return places;
    places.first = runs[0].first;
    if (runs.size() == 1) return places;
    places.index_R = at::empty({places.rows}, at::kLong);
    int64_t* row = places.index_R.mutable_data_ptr<int64_t>();
    for (const auto& [first, rows] : runs) {
      std::iota(row, row + rows, first);
      row += rows;
    }
    return places;
  }
};

// --- The contents of one message.

// Returns which columns of a tensor of `width` columns are exchanged with `rank`: all columns of a
// target tensor, and those columns of a source tensor that `rank` has in the target.
std::vector<ColumnRange> ColumnsOf(const MovedRows& moved, int rank, bool in_source,
                                   int64_t width) {
  if (moved.columns == nullptr || !in_source) return {{0, width}};
  return moved.columns->of_rank.at(rank);
}

int64_t ColumnCount(const std::vector<ColumnRange>& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), int64_t{0},
                         [](int64_t sum, const ColumnRange& range) { return sum + range.count; });
}

// Some rows and columns of a tensor, one column range after another: the data of a message, or the
// destination of received data.
struct Piece {
  at::Tensor tensor;
  const RowMap::Places* places;
  std::vector<ColumnRange> columns;

  std::vector<int64_t> Shape() const {
    std::vector<int64_t> shape = tensor.sizes().vec();
    shape[0] = places->rows;
    shape[1] = ColumnCount(columns);
    return shape;
  }
  int64_t bytes() const {
    return c10::multiply_integers(Shape()) * static_cast<int64_t>(tensor.element_size());
  }

  void CopyTo(const at::Tensor& packed) const {
    ForEachRange(packed, [&](const at::Tensor& own, const at::Tensor& part) {
      part.copy_(places->index_R.defined() ? own.index_select(0, places->index_R.to(own.device()))
                                           : own.narrow(0, places->first, places->rows));
    });
  }
  // Overwrites the piece's rows and columns with `packed`, or adds `packed` to them if `adds`.
  // `packed` may have a narrower dtype.
  void TakeFrom(const at::Tensor& packed, bool adds) const {
    ForEachRange(packed, [&](const at::Tensor& own, const at::Tensor& part) {
      if (!places->index_R.defined()) {
        const at::Tensor rows = own.narrow(0, places->first, places->rows);
        adds ? rows.add_(part) : rows.copy_(part);
        return;
      }
      const at::Tensor index = places->index_R.to(own.device());
      const at::Tensor values = part.to(own.scalar_type());
      adds ? own.index_add_(0, index, values) : own.index_copy_(0, index, values);
    });
  }

 private:
  template <typename Each>
  void ForEachRange(const at::Tensor& packed, const Each& each) const {
    if (packed.numel() == 0) return;
    int64_t column = 0;
    for (const ColumnRange& range : columns) {
      each(tensor.narrow(1, range.begin, range.count), packed.narrow(1, column, range.count));
      column += range.count;
    }
  }
};

// One message: the bytes of the pieces one after another, those with the widest dtype first, so
// that each piece begins at a multiple of its element size.
class Letter {
 public:
  explicit Letter(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {
    int64_t bytes = 0;
    for (const Piece& piece : pieces_) bytes += piece.bytes();
    bytes_ = at::empty({bytes}, pieces_[0].tensor.options().dtype(at::kByte));
  }
  const at::Tensor& bytes() const { return bytes_; }
  void Fill() const {
    ForEach([](const Piece& piece, const at::Tensor& part) { piece.CopyTo(part); });
  }
  // Unpacks the message into `sums`, one tensor for each piece, instead of the pieces' own tensors.
  // adds[i] states whether piece i is added to sums[i] or overwrites it.
  void Empty(const std::vector<at::Tensor>& sums, const std::vector<bool>& adds) const {
    size_t at = 0;
    ForEach([&](const Piece& piece, const at::Tensor& part) {
      Piece{sums[at], piece.places, piece.columns}.TakeFrom(part, adds[at]);
      ++at;
    });
  }

 private:
  template <typename Each>
  void ForEach(const Each& each) const {
    int64_t at = 0;
    for (const Piece& piece : pieces_) {
      each(
          piece,
          bytes_.narrow(0, at, piece.bytes()).view(piece.tensor.scalar_type()).view(piece.Shape()));
      at += piece.bytes();
    }
  }

  std::vector<Piece> pieces_;
  at::Tensor bytes_;
};

// Whether MoveRowsBack may receive several copies of one number of the source, so that it must add
// them up.
bool ComesBackTwice(const MovedRows& moved) {
  if (!moved.map->repeats()) return false;
  if (moved.columns == nullptr) return true;
  std::vector<ColumnRange> all;
  for (const auto& ranges : moved.columns->of_rank)
    all.insert(all.end(), ranges.begin(), ranges.end());
  std::sort(all.begin(), all.end(),
            [](const ColumnRange& a, const ColumnRange& b) { return a.begin < b.begin; });
  int64_t end = 0;
  for (const ColumnRange& range : all) {
    if (range.count > 0 && range.begin < end) return true;
    end = std::max(end, range.begin + range.count);
  }
  return false;
}

void Check(const MovedRows& moved, bool back) {
  const RowMap& map = *moved.map;
  const at::Tensor& rows = moved.rows;
  const int64_t wanted = back ? map.target_rows() : map.source_rows();
  TORCH_CHECK(rows.dim() >= 2 && rows.size(0) == wanted, "row exchange: a tensor of shape ",
              rows.sizes(), ", expected ", wanted, " rows of columns");
  if (moved.columns == nullptr) return;
  const int64_t width = back ? moved.columns->WidthOf(map.rank()) : moved.columns->width;
  TORCH_CHECK(rows.size(1) == width, "row exchange: a tensor of shape ", rows.sizes(),
              ", expected ", width, " columns");
}

// MoveRows, or MoveRowsBack if `back`, without autograd. Results are in the order of `moved`.
base::Tensors Move(const std::vector<MovedRows>& moved, bool back, Communicator& group) {
  std::vector<size_t> order(moved.size());  // the widest numbers first
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return moved[a].rows.element_size() > moved[b].rows.element_size();
  });
  const int rank = group.rank(), ranks = group.size();
  base::Tensors results(moved.size()), sums;
  std::vector<bool> adds;
  for (const size_t i : order) {
    const MovedRows& m = moved[i];
    std::vector<int64_t> shape = m.rows.sizes().vec();
    shape[0] = back ? m.map->source_rows() : m.map->target_rows();
    if (m.columns != nullptr) shape[1] = back ? m.columns->width : m.columns->WidthOf(rank);
    adds.push_back(back && ComesBackTwice(m));
    at::ScalarType dtype = m.rows.scalar_type();
    results[i] = back ? at::zeros(shape, m.rows.options()) : at::empty(shape, m.rows.options());
    if (adds.back() && dtype != at::kDouble) dtype = at::kFloat;
    sums.push_back(dtype == m.rows.scalar_type() ? results[i] : results[i].to(dtype));
  }
  // The message between this rank and a peer, with data in `tensor`. In the source: the columns
  // that the peer has, of the rows that the peer has. In the target: all columns of the rows that
  // come from the peer.
  const auto letter = [&](int peer, bool in_source, bool sends) {
    std::vector<Piece> pieces;
    for (const size_t i : order) {
      const MovedRows& m = moved[i];
      const at::Tensor& tensor = sends ? m.rows : results[i];
      pieces.push_back({tensor, in_source ? &m.map->sent(peer) : &m.map->received(peer),
                        ColumnsOf(m, in_source ? peer : rank, in_source, tensor.size(1))});
    }
    return Letter(std::move(pieces));
  };
  std::vector<Communicator::Message> send, receive;
  std::vector<Letter> received;
  for (int s = 1; s < ranks; ++s) {  // next rank first, so that not all send to one at a time
    const int to = (rank + s) % ranks, from = (rank + ranks - s) % ranks;
    const Letter sent = letter(to, /*in_source=*/!back, /*sends=*/true);
    sent.Fill();
    send.push_back({sent.bytes(), to});
    received.push_back(letter(from, /*in_source=*/back, /*sends=*/false));
    receive.push_back({received.back().bytes(), from});
  }
  auto transfer = base::ValueOrThrow(group.Exchange(std::move(send), std::move(receive)));
  const Letter own_sent = letter(rank, !back, true), own_received = letter(rank, back, false);
  own_sent.Fill();
  own_received.bytes().copy_(own_sent.bytes());
  own_received.Empty(sums, adds);
  base::ThrowIfError(transfer.Wait());
  // The order of the additions is fixed (this rank, the rank before it, and so on), so that every
  // run gives the same bits.
  for (const Letter& one : received) one.Empty(sums, adds);
  for (size_t at = 0; at < order.size(); ++at)
    if (!sums[at].is_same(results[order[at]])) results[order[at]].copy_(sums[at]);
  return results;
}

bool AllStay(const std::vector<MovedRows>& moved) {
  return std::all_of(moved.begin(), moved.end(),
                     [](const MovedRows& m) { return m.map->stays() && m.columns == nullptr; });
}

base::Tensors MoveWithGraph(const std::vector<MovedRows>& moved, bool back,
                            std::shared_ptr<Communicator> group) {
  base::Tensors inputs;
  std::vector<MovedRows> shape_of;  // for the backward: without tensors
  for (const MovedRows& m : moved) {
    Check(m, back);
    inputs.push_back(m.rows);
    shape_of.push_back({{}, m.map, m.columns});
  }
  if (AllStay(moved)) return inputs;
  return base::Apply(
      {.name = back ? "MoveRowsBack" : "MoveRows",
       .forward = [&](base::Tensors*) -> base::Tensors { return Move(moved, back, *group); },
       .backward = [shape_of, back, group](base::BackwardCall& call) -> base::Tensors {
         std::vector<MovedRows> gradients = shape_of;
         for (size_t i = 0; i < gradients.size(); ++i) gradients[i].rows = call.gradients[i];
         return Move(gradients, !back, *group);
       }},
      inputs);
}

RowTraffic Count(const std::vector<CountedRows>& moved, bool back) {
  RowTraffic traffic;
  if (moved.empty()) return traffic;
  const int rank = moved[0].map->rank();
  int64_t to = 0, from = 0;
  for (int peer = 0; peer < moved[0].map->ranks(); ++peer) {
    if (peer == rank) continue;
    int64_t there = 0, here = 0;  // bytes of target rows, of the peer and of this rank
    for (const CountedRows& m : moved) {
      const auto width = [&](int of) { return m.columns == nullptr ? 1 : m.columns->WidthOf(of); };
      there += m.map->sent(peer).rows * width(peer) * m.column_bytes;
      here += m.map->received(peer).rows * width(rank) * m.column_bytes;
    }
    traffic.bytes += back ? here : there;
    to += there > 0;
    from += here > 0;
  }
  traffic.steps = std::max(to, from);
  return traffic;
}

}  // namespace

SpansOfRanks SpansOf(const Layout& layout) {
  SpansOfRanks spans;
  for (int rank = 0; rank < layout.ranks(); ++rank) spans.push_back(layout.spans(rank));
  return spans;
}

SpansOfRanks WholeStream(const Layout& layout) {
  std::vector<Span> whole;
  for (size_t d = 0; d < layout.lengths().size(); ++d)
    if (layout.lengths()[d] > 0) whole.push_back({static_cast<int64_t>(d), 0, layout.lengths()[d]});
  return SpansOfRanks(layout.ranks(), whole);
}

int64_t RowsOf(const std::vector<Span>& spans) {
  return std::accumulate(spans.begin(), spans.end(), int64_t{0},
                         [](int64_t sum, const Span& span) { return sum + span.tokens(); });
}

RowMap::RowMap(const SpansOfRanks& source, const SpansOfRanks& target, int rank)
    : rank_(rank), source_rows_(RowsOf(source.at(rank))), target_rows_(RowsOf(target.at(rank))) {
  TORCH_CHECK(source.size() == target.size(), "row exchange: from ", source.size(), " ranks to ",
              target.size());
  std::vector<Held> mine = HeldBy(source[rank], rank), all;
  SortByPlace(mine);
  for (size_t r = 0; r < source.size(); ++r)
    for (const Held& held : HeldBy(source[r], static_cast<int>(r))) all.push_back(held);
  SortByPlace(all);
  std::vector<bool> sent_before(source_rows_, false);
  for (const std::vector<Span>& wanted : target) {
    Runs runs;
    for (const Span& span : wanted)
      ForEachWithin(mine, span, [&](const Held& held, int64_t begin, int64_t end) {
        const int64_t first = held.row + begin - held.span.begin;
        runs.Add(first, end - begin);
        for (int64_t row = first; row < first + end - begin; ++row) {
          repeats_ = repeats_ || sent_before[row];
          sent_before[row] = true;
        }
      });
    sent_.push_back(runs.Done());
  }
  std::vector<Runs> runs(source.size());
  int64_t row = 0;
  for (const Span& span : target[rank]) {
    const int64_t found =
        ForEachWithin(all, span, [&](const Held& held, int64_t begin, int64_t end) {
          runs[held.rank].Add(row + begin - span.begin, end - begin);
        });
    TORCH_CHECK(found == span.tokens(), "row exchange: of tokens [", span.begin, ", ", span.end,
                ") of document ", span.document, " the ranks have ", found);
    row += span.tokens();
  }
  for (const Runs& from : runs) received_.push_back(from.Done());
  const auto whole = [&](const Places& places) {
    return places.rows == source_rows_ && !places.index_R.defined() && places.first == 0;
  };
  stays_ = source_rows_ == target_rows_ && whole(sent_[rank]) && whole(received_[rank]) &&
           std::all_of(sent_.begin(), sent_.end(), [&](const Places& places) {
             return &places == &sent_[rank] || places.rows == 0;
           });
}

int64_t ColumnSplit::WidthOf(int rank) const { return ColumnCount(of_rank.at(rank)); }

std::vector<at::Tensor> MoveRows(const std::vector<MovedRows>& moved,
                                 std::shared_ptr<Communicator> group) {
  return MoveWithGraph(moved, /*back=*/false, std::move(group));
}

std::vector<at::Tensor> MoveRowsBack(const std::vector<MovedRows>& moved,
                                     std::shared_ptr<Communicator> group) {
  return MoveWithGraph(moved, /*back=*/true, std::move(group));
}

RowTraffic CountMoved(const std::vector<CountedRows>& moved) { return Count(moved, false); }
RowTraffic CountMovedBack(const std::vector<CountedRows>& moved) { return Count(moved, true); }

}  // namespace moonring::comm
