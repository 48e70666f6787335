#include "attention/strategy/attention_cost.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "attention/kernels/counted_places.h"
#include "attention/kernels/head_split.h"
#include "attention/kernels/tile_plan.h"
#include "attention/strategy/context_attention.h"
#include "attention/strategy/context_plan.h"

namespace moonring::attention {
namespace {

// Counts the exchanges of one rank, one after another.
class TrafficCounter {
 public:
  TrafficCounter(const comm::Division& division, int rank, int ranks_per_machine)
      : division_(division),
        rank_(rank),
        ranks_per_machine_(ranks_per_machine > 0 ? ranks_per_machine : division.ranks()) {}

  void Send(int peer, int64_t bytes) {
    if (peer == rank_ || bytes == 0) return;
    to_.insert(peer);
    traffic_.bytes += bytes;
    if (peer / ranks_per_machine_ != rank_ / ranks_per_machine_) traffic_.far_bytes += bytes;
  }
  void Receive(int peer, int64_t bytes) {
    if (peer != rank_ && bytes > 0) from_.insert(peer);
  }
  void EndExchange() {
    const auto peers = static_cast<int64_t>(std::max(to_.size(), from_.size()));
    traffic_.exchanges += peers > 0 ? 1 : 0;
    traffic_.steps += peers;
    to_.clear();
    from_.clear();
  }

  // The rank at index `context` (or `head`) along one axis of the grid, with this rank's index
  // along the other axis.
  int AtContext(int context) const { return division_.Rank(context, division_.HeadOf(rank_)); }
  int AtHead(int head) const { return division_.Rank(division_.ContextOf(rank_), head); }

  Traffic Take() { return std::exchange(traffic_, {}); }

 private:
  const comm::Division& division_;
  int rank_, ranks_per_machine_;
  Traffic traffic_;
  std::set<int> to_, from_;
};

// The contents of the two exchanges of heads in a pass. There: local rows of `there` elements for
// each peer. Back: rows of this rank's own `back` elements.
struct HeadTraffic {
  std::vector<int64_t> there, back;  // by head rank
  int64_t bytes_there = 0, bytes_back = 0;
};

Traffic CountExchange(const comm::Layout& layout, TrafficCounter& counter, int own,
                      const HeadTraffic& heads) {
  const auto tokens = [&](int head) { return layout.local_tokens(counter.AtHead(head)); };
  const auto pass = [&](const auto& sent, const auto& received) {
    for (int p = 0; p < layout.division().heads; ++p) {
      counter.Send(counter.AtHead(p), sent(p));
      counter.Receive(counter.AtHead(p), received(p));
    }
    counter.EndExchange();
  };
  pass([&](int p) { return tokens(own) * heads.there[p] * heads.bytes_there; },
       [&](int p) { return tokens(p) * heads.there[own] * heads.bytes_there; });
  pass([&](int p) { return tokens(p) * heads.back[own] * heads.bytes_back; },
       [&](int p) { return tokens(own) * heads.back[p] * heads.bytes_back; });
  return counter.Take();
}

int64_t RowsIn(const std::vector<KeyMove>& moves) {
  int64_t rows = 0;
  for (const KeyMove& move : moves) rows += move.count();
  return rows;
}

// The number of rows that must be copied before a transfer: those of moves with several ranges, or
// all rows if the buffer itself is strided.
int64_t CopiedRowsIn(const std::vector<KeyMove>& moves, bool strided) {
  int64_t rows = 0;
  for (const KeyMove& move : moves) rows += strided || move.rows.size() > 1 ? move.count() : 0;
  return rows;
}

// Elements of one head's key and value together, per row.
int64_t KeyRow(const AttentionShape& shape) { return shape.dims().key + shape.dims().value; }

struct ContextTraffic {
  Traffic forward, backward;
};

ContextTraffic CountContext(const ContextPlan& plan, TrafficCounter& counter, const RankHeads& own,
                            const AttentionShape& shape) {
  ContextTraffic traffic;
  const int64_t slices = SlicesOf(plan, own.kv.heads()), of_head = KeyRow(shape);
  for (int64_t s = 0; s < slices; ++s) {
    const int64_t kv = (s + 1) * own.kv.heads() / slices - s * own.kv.heads() / slices;
    const auto exchange = [&](const std::vector<KeyMove>& send, const std::vector<KeyMove>& receive,
                              int64_t bytes) {
      for (const KeyMove& move : send)
        counter.Send(counter.AtContext(move.place), move.count() * kv * of_head * bytes);
      for (const KeyMove& move : receive)
        counter.Receive(counter.AtContext(move.place), move.count() * kv * of_head * bytes);
      counter.EndExchange();
      return counter.Take();
    };
    for (const ContextStep& step : plan.steps) {
      if (step.own) continue;
      traffic.forward += exchange(step.send, step.receive, shape.element_bytes);
      traffic.backward += exchange(step.send, step.receive, shape.element_bytes);
      traffic.backward += exchange(step.receive, step.send, shape.accumulate_bytes);
    }
  }
  return traffic;
}

// Memory that ContextAttention uses during its turns: keys, their copies and casts, gradients in
// transfer, and the current tile.
class ContextMemory {
 public:
  // `packed`: whether the local keys are some heads of a wider buffer, and so strided.
  ContextMemory(const ContextPlan& plan, const RankHeads& own, const AttentionShape& shape,
                int64_t tokens, bool packed)
      : shape_(shape), tokens_(tokens) {
    const int64_t slices = SlicesOf(plan, own.kv.heads());
    strided_ = packed || slices > 1;
    for (int64_t s = 0; s < slices; ++s) {
      const int first = static_cast<int>(turns_.size());
      const int64_t kv = (s + 1) * own.kv.heads() / slices - s * own.kv.heads() / slices;
      for (const ContextStep& step : plan.steps) {
        const int number = static_cast<int>(turns_.size());
        turns_.push_back(
            {.step = &step,
             .kv = kv,
             .queries = (own.queries.heads() * kv + own.kv.heads() - 1) / own.kv.heads(),
             .source = first + step.source,
             .start = std::max(0, number - step.lead),
             .last_use = number,
             .leaves = number});
      }
    }
    for (int t = 0; t < static_cast<int>(turns_.size()); ++t) {
      Turn& source = turns_[turns_[t].source];
      if (turns_[t].step->own || turns_[t].source == t) continue;
      source.last_use = std::max(source.last_use, turns_[t].start);
      source.leaves = std::max(source.leaves, t + 1);
    }
  }

  int64_t Forward() const {
    int64_t most = 0;
    for (int t = 0; t < static_cast<int>(turns_.size()); ++t)
      most = std::max(most, Keys(t) + InWork(turns_[t], /*backward=*/false));
    return most;
  }

  int64_t Backward() const {
    int64_t most = 0;
    for (int t = 0; t < static_cast<int>(turns_.size()); ++t) {
      int64_t held = 0, under_way = 0, leaving = 0;  // gradients of received keys: not yet sent;
                                                     // sent at the end of the previous turn; sent
                                                     // in this turn
      for (const Turn& turn : turns_) {
        if (turn.step->own) continue;
        const int64_t home = RowsIn(turn.step->send);
        if (&turn <= &turns_[t] && t <= turn.leaves)
          held += turn.step->tiles.key_rows * KeyRow(turn);
        if (t == turn.leaves + 1) under_way += (turn.step->tiles.key_rows + home) * KeyRow(turn);
        if (t == turn.leaves)
          leaving += (CopiedRowsIn(turn.step->receive, false) + home) * KeyRow(turn);
      }
      const int64_t sums = held + std::max(under_way, leaving);
      most = std::max(
          most, Keys(t) + InWork(turns_[t], /*backward=*/true) + sums * shape_.accumulate_bytes);
    }
    return most;
  }

 private:
  struct Turn {
    const ContextStep* step = nullptr;
    int64_t kv = 0, queries = 0;              // heads of its slice
    int source = 0, start = 0, last_use = 0;  // as in ContextAttention
    int leaves = 0;  // the turn after which the gradients of this turn's keys are sent to the keys'
                     // owner
  };

  // Elements of a row of keys and values.
  int64_t KeyRow(const Turn& turn) const { return turn.kv * attention::KeyRow(shape_); }

  // Bytes of keys during turn `now`: the buffers of keys that have arrived or are arriving, and the
  // contiguous copies that transfers read and write.
  int64_t Keys(int now) const {
    int64_t elements = 0;
    for (int t = 0; t < static_cast<int>(turns_.size()); ++t) {
      const Turn& turn = turns_[t];
      if (turn.step->own || now < turn.start) continue;
      int64_t rows = now <= turn.last_use ? turn.step->tiles.key_rows : 0;
      const bool from_own = turn.source == t || turns_[turn.source].step->own;
      if (now < t)
        rows += CopiedRowsIn(turn.step->send, from_own && strided_) +
                CopiedRowsIn(turn.step->receive, false);
      elements += rows * KeyRow(turn);
    }
    return elements * shape_.element_bytes;
  }

  // Inputs converted to the dtype of sums, and the results of the largest tile.
  int64_t InWork(const Turn& turn, bool backward) const {
    const bool casts = shape_.upcasts && shape_.element_bytes != shape_.accumulate_bytes;
    const HeadDims dims = shape_.dims();
    const int64_t inputs =
        casts ? tokens_ * turn.queries * dims.key + turn.step->tiles.key_rows * KeyRow(turn) : 0;
    const int64_t group = turn.kv == 0 ? 0 : (turn.queries + turn.kv - 1) / turn.kv;
    int64_t results = 0;
    for (const QueryBlock& block : turn.step->tiles.blocks) {
      for (const TileRows& tile : block.tiles)
        results = std::max(results, backward ? tile.queries.rows() * group * dims.key +
                                                   tile.keys.rows() * attention::KeyRow(shape_)
                                             : tile.queries.rows() * group * dims.value);
    }
    return (inputs + results) * shape_.accumulate_bytes;
  }

  const AttentionShape& shape_;
  int64_t tokens_;
  bool strided_ = false;
  std::vector<Turn> turns_;
};

// Bytes beyond the inputs in HybridAttention: saved from forward to backward, and the peak over all
// phases.
struct RankMemory {
  int64_t saved = 0, peak = 0;
};

RankMemory CountMemory(const ContextMemory& context, const std::vector<RankHeads>& split, int head,
                       const AttentionShape& shape, int64_t local, int64_t tokens) {
  const HeadDims dims = shape.dims();
  const int64_t d = dims.value, e = shape.element_bytes, a = shape.accumulate_bytes;
  const RankHeads& own = split[head];
  const bool casts = e != a, exchanges = split.size() > 1, shares = SharesKvHeads(split);
  const RankHeads all{{0, shape.heads}, {0, shape.kv_heads}};
  int64_t packed_of_others = 0;
  for (const RankHeads& rank : split) packed_of_others += &rank == &own ? 0 : rank.packed(dims);
  const int64_t out = local * shape.heads * d * e, gradients = local * all.packed(dims) * e;
  const int64_t query_rows = tokens * own.queries.heads(),
                packed = exchanges ? tokens * own.packed(dims) * e : 0;
  // Saved: lse; out in the dtype of sums, unless it is the result itself; the local heads of q, k
  // and v, unless they are the inputs.
  const int64_t lse = query_rows * a, out_sum = query_rows * d * a;
  const int64_t saved = packed + lse + (exchanges || casts ? out_sum : 0);
  const int64_t others_out = local * (shape.heads - own.queries.heads()) * d * e;

  const int64_t to_heads = packed + (exchanges ? local * packed_of_others * e : 0);
  const int64_t merging = packed + out_sum + 2 * lse + context.Forward();
  const int64_t leaving =
      exchanges ? saved + (casts ? query_rows * d * e : 0) + others_out + out : saved + out;
  const int64_t forward = std::max({to_heads, merging, leaving});

  const int64_t sums = exchanges || casts ? tokens * own.packed(dims) * a : gradients;
  const int64_t dout = exchanges ? query_rows * d * e : 0;
  const int64_t working =
      sums + dout +
      std::max(exchanges ? others_out : 0,
               (casts && shape.upcasts ? query_rows * d * a : 0) + context.Backward());
  int64_t done = sums + (casts ? gradients : 0);
  if (exchanges) {
    // Gradient sums are sent in AccumulateType, or are freed after a cast to the inputs' dtype,
    // which is then sent.
    const int64_t cast = casts && !shares ? tokens * own.packed(dims) * e : 0,
                  travelling = cast > 0 ? cast : sums;
    const int64_t wide =
        casts && shares ? local * all.packed(dims) * a : 0;  // the complete sums before the cast to
                                                             // the inputs' dtype
    done = std::max(sums + cast,
                    travelling + local * packed_of_others * (shares ? a : e) + wide + gradients);
  }
  const int64_t backward = saved + out + std::max(working, done);
  return {saved, std::max<int64_t>(0, std::max(forward, backward) - saved - out - gradients)};
}

}  // namespace

Traffic& Traffic::operator+=(const Traffic& other) {
  exchanges += other.exchanges;
  steps += other.steps;
  bytes += other.bytes;
  far_bytes += other.far_bytes;
  return *this;
}

Traffic RankCost::forward() const { return Traffic(exchange_forward) += context_forward; }
Traffic RankCost::backward() const { return Traffic(exchange_backward) += context_backward; }

namespace {

// An exchange between the ranks of the heads axis: rank r sends to rank p mine[r] x theirs[p]
// elements of `unit` bytes. One factor is a number of rows, the other a number of elements per row.
struct Trade {
  std::vector<int64_t> mine, theirs;
  int64_t unit = 0;
};

// The traffic of every rank of the heads axis, computed from sums over all of them and over those
// of each machine.
std::vector<Traffic> TradeTraffic(const Trade& trade, const std::vector<int>& machine_of) {
  absl::flat_hash_map<int, int64_t> on_machine;
  int64_t all_mine = 0, all_theirs = 0;
  for (size_t p = 0; p < trade.mine.size(); ++p) {
    all_mine += trade.mine[p];
    all_theirs += trade.theirs[p];
    on_machine[machine_of[p]] += trade.theirs[p];
  }
  std::vector<Traffic> traffic(trade.mine.size());
  for (size_t p = 0; p < traffic.size(); ++p) {
    const int64_t sent = trade.mine[p] * (all_theirs - trade.theirs[p]);
    const int64_t received = trade.theirs[p] * (all_mine - trade.mine[p]);
    traffic[p].exchanges = sent > 0 || received > 0 ? 1 : 0;
    traffic[p].bytes = sent * trade.unit;
    traffic[p].far_bytes = trade.mine[p] * (all_theirs - on_machine[machine_of[p]]) * trade.unit;
  }
  return traffic;
}

// Counts the cost of each rank; has the data that the counts of all ranks share.
class RankCounter {
 public:
  RankCounter(const comm::Layout& layout, const AttentionShape& shape, int ranks_per_machine)
      : layout_(layout),
        shape_(shape),
        ranks_per_machine_(ranks_per_machine),
        split_(SplitHeads(shape.heads, shape.kv_heads, layout.division().heads)) {
    forward_ = {.bytes_there = shape.element_bytes, .bytes_back = shape.element_bytes};
    backward_ = forward_;
    if (SharesKvHeads(split_)) backward_.bytes_back = shape.accumulate_bytes;
    const HeadDims dims = shape.dims();
    for (const RankHeads& heads : split_) {
      const int64_t packed = heads.packed(dims), out = heads.queries.heads() * dims.value;
      forward_.there.push_back(packed);
      forward_.back.push_back(out);
      backward_.there.push_back(out);
      backward_.back.push_back(packed);
    }
  }

  const std::vector<RankHeads>& split() const { return split_; }

  void CountKeys(const ContextPlan& plan, int context, int head, RankCost& rank) const {
    const comm::Division& division = layout_.division();
    TrafficCounter counter(division, division.Rank(context, head), ranks_per_machine_);
    const ContextTraffic traffic = CountContext(plan, counter, split_[head], shape_);
    rank.context_forward = traffic.forward;
    rank.context_backward = traffic.backward;
    if (traffic.forward.exchanges == 0) return;
    rank.merges = plan.steps.size() > 1;
    rank.waits_for_keys = !plan.steps.front().own;
  }

  void CountHeads(int context, int head, RankCost& rank) const {
    const comm::Division& division = layout_.division();
    if (division.heads == 1) return;
    TrafficCounter counter(division, division.Rank(context, head), ranks_per_machine_);
    rank.exchange_forward = CountExchange(layout_, counter, head, forward_);
    rank.exchange_backward = CountExchange(layout_, counter, head, backward_);
  }

  void CountMemoryOf(const ContextPlan& plan, int context, int head, RankCost& rank) const {
    const comm::Division& division = layout_.division();
    const int64_t tokens = layout_.context_tokens(context);
    const int64_t local = layout_.local_tokens(division.Rank(context, head));
    const ContextMemory held(plan, split_[head], shape_, tokens, division.heads > 1);
    const RankMemory memory = CountMemory(held, split_, head, shape_, local, tokens);
    rank.peak_bytes = memory.peak;
    rank.saved_bytes = memory.saved;
  }

  // As CountHeads, for all ranks of a context rank at once; steps are not counted. O(heads).
  void EstimateHeads(int context, AttentionCost& cost) const {
    const comm::Division& division = layout_.division();
    if (division.heads == 1) return;
    std::vector<int64_t> tokens;
    std::vector<int> machine_of;
    for (int head = 0; head < division.heads; ++head) {
      const int rank = division.Rank(context, head);
      tokens.push_back(layout_.local_tokens(rank));
      machine_of.push_back(ranks_per_machine_ > 0 ? rank / ranks_per_machine_ : 0);
    }
    const auto pass = [&](const HeadTraffic& heads, Traffic RankCost::*exchange) {
      const Trade there{tokens, heads.there, heads.bytes_there};
      const Trade back{heads.back, tokens, heads.bytes_back};
      for (const Trade& trade : {there, back}) {
        const std::vector<Traffic> traffic = TradeTraffic(trade, machine_of);
        for (int head = 0; head < division.heads; ++head) {
          cost[division.Rank(context, head)].*exchange += traffic[head];
        }
      }
    };
    pass(forward_, &RankCost::exchange_forward);
    pass(backward_, &RankCost::exchange_backward);
  }

 private:
  const comm::Layout& layout_;
  const AttentionShape& shape_;
  int ranks_per_machine_;
  std::vector<RankHeads> split_;
  HeadTraffic forward_, backward_;
};

// Query-key pairs of a context rank: sum of min(t + 1, window) over its tokens.
double AreaOf(const std::vector<comm::Span>& spans, int64_t window) {
  double pairs = 0;
  for (const comm::Span& span : spans) {
    const int64_t full = window > 0 ? std::clamp(window, span.begin, span.end) : span.end;
    pairs += CausalTileArea(span.document, span.begin, full);
    pairs += static_cast<double>(span.end - full) * static_cast<double>(window);
  }
  return pairs;
}

}  // namespace

AttentionCost CostOfAttention(const Strategy& strategy, const comm::Layout& layout,
                              const AttentionShape& shape, int ranks_per_machine,
                              const Mask* mask) {
  const comm::Division& division = layout.division();
  const RankCounter counter(layout, shape, ranks_per_machine);
  AttentionCost cost(layout.ranks());
  for (int context = 0; context < division.contexts; ++context) {
    const ContextPlan plan =
        strategy.transport->Plan(layout, context, {.window = shape.window, .mask = mask});
    const double area = plan.area();
    for (int head = 0; head < division.heads; ++head) {
      RankCost& rank = cost[division.Rank(context, head)];
      rank.tile_area = area * static_cast<double>(counter.split()[head].queries.heads());
      counter.CountKeys(plan, context, head, rank);
      counter.CountHeads(context, head, rank);
      counter.CountMemoryOf(plan, context, head, rank);
    }
  }
  return cost;
}

AttentionCost EstimateCost(const Strategy& strategy, const comm::Layout& layout,
                           const AttentionShape& shape, int ranks_per_machine) {
  const comm::Division& division = layout.division();
  const RankCounter counter(layout, shape, ranks_per_machine);
  AttentionCost cost(layout.ranks());
  std::vector<double> areas;
  for (int context = 0; context < division.contexts; ++context) {
    areas.push_back(AreaOf(layout.context_spans(context), shape.window));
    for (int head = 0; head < division.heads; ++head) {
      const auto heads = static_cast<double>(counter.split()[head].queries.heads());
      cost[division.Rank(context, head)].tile_area = areas.back() * heads;
    }
    counter.EstimateHeads(context, cost);
  }
  for (const int context : CountedPlaces(layout, areas)) {
    const ContextPlan plan = strategy.transport->PlanTraffic(layout, context, shape.window);
    for (int head = 0; head < division.heads; ++head) {
      counter.CountKeys(plan, context, head, cost[division.Rank(context, head)]);
    }
  }
  return cost;
}

double Balance(const AttentionCost& cost) {
  double most = 0, sum = 0;
  for (const RankCost& rank : cost) most = std::max(most, rank.tile_area), sum += rank.tile_area;
  return sum == 0 ? 1.0 : most * static_cast<double>(cost.size()) / sum;
}

}  // namespace moonring::attention
