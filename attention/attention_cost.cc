#include "attention/attention_cost.h"

#include <algorithm>
#include <set>
#include <utility>

#include "attention/context_attention.h"
#include "attention/context_plan.h"
#include "attention/head_split.h"

namespace moonring::attention {
namespace {

// The exchanges of one rank, one after another.
class TrafficCounter {
 public:
  TrafficCounter(const comm::Division& division, int rank, int ranks_per_machine)
      : division_(division), rank_(rank), ranks_per_machine_(ranks_per_machine > 0 ? ranks_per_machine : division.ranks()) {}

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

  // Peers by place on this rank's other axis.
  int AtContext(int context) const { return division_.Rank(context, division_.HeadOf(rank_)); }
  int AtHead(int head) const { return division_.Rank(division_.ContextOf(rank_), head); }

  Traffic Take() { return std::exchange(traffic_, {}); }

 private:
  const comm::Division& division_;
  int rank_, ranks_per_machine_;
  Traffic traffic_;
  std::set<int> to_, from_;
};

// What each of the two exchanges of a pass carries: rows there of `there` heads for each peer, rows back of `back` heads of one's own.
struct HeadTraffic {
  std::vector<int64_t> there, back;  // by head place
  int64_t bytes_there = 0, bytes_back = 0;
};

Traffic CountExchange(const comm::Layout& layout, TrafficCounter& counter, int own, int64_t head_dim, const HeadTraffic& heads) {
  const auto tokens = [&](int head) { return layout.local_tokens(counter.AtHead(head)); };
  const auto pass = [&](const auto& sent, const auto& received) {
    for (int p = 0; p < layout.division().heads; ++p) {
      counter.Send(counter.AtHead(p), sent(p) * head_dim);
      counter.Receive(counter.AtHead(p), received(p) * head_dim);
    }
    counter.EndExchange();
  };
  pass([&](int p) { return tokens(own) * heads.there[p] * heads.bytes_there; }, [&](int p) { return tokens(p) * heads.there[own] * heads.bytes_there; });
  pass([&](int p) { return tokens(p) * heads.back[own] * heads.bytes_back; }, [&](int p) { return tokens(own) * heads.back[p] * heads.bytes_back; });
  return counter.Take();
}

int64_t RowsIn(const std::vector<KeyMove>& moves) {
  int64_t rows = 0;
  for (const KeyMove& move : moves) rows += move.count();
  return rows;
}

// Turns as ContextAttention takes them, with what is alive in each.
struct ContextCount {
  Traffic forward, backward;
  int64_t forward_peak = 0, backward_peak = 0;
};

ContextCount CountContext(const ContextPlan& plan, TrafficCounter& counter, const RankHeads& own, const AttentionShape& shape, int64_t tokens) {
  ContextCount count;
  const int64_t slices = SlicesOf(plan, own.kv.heads());
  const bool casts = shape.element_bytes != shape.accumulate_bytes;
  for (int64_t s = 0; s < slices; ++s) {
    // A slice of one kv head has no fewer query heads than any other has for each of its own.
    const int64_t kv = (s + 1) * own.kv.heads() / slices - s * own.kv.heads() / slices;
    const int64_t key_row = 2 * kv * shape.head_dim;
    const int64_t query_cast = casts ? tokens * (own.queries.heads() * kv + own.kv.heads() - 1) / own.kv.heads() * shape.head_dim * shape.accumulate_bytes : 0;
    for (size_t t = 0; t < plan.steps.size(); ++t) {
      const ContextStep& step = plan.steps[t];
      const auto exchange = [&](const std::vector<KeyMove>& send, const std::vector<KeyMove>& receive, int64_t bytes) {
        for (const KeyMove& move : send) counter.Send(counter.AtContext(move.place), move.count() * key_row * bytes);
        for (const KeyMove& move : receive) counter.Receive(counter.AtContext(move.place), move.count() * key_row * bytes);
        counter.EndExchange();
        return counter.Take();
      };
      if (!step.own) {
        count.forward += exchange(step.send, step.receive, shape.element_bytes);
        count.backward += exchange(step.send, step.receive, shape.element_bytes);
        count.backward += exchange(step.receive, step.send, shape.accumulate_bytes);
      }
      // Alive: these keys and the next ones, copies that are sent, the casts; backward, gradients, those on their way, those that come.
      const int64_t rows = step.own ? 0 : step.tiles.key_rows;
      const bool last = t + 1 == plan.steps.size();
      const ContextStep* next = !last ? &plan.steps[t + 1] : s + 1 < slices && !plan.steps[0].own ? &plan.steps[0] : nullptr;
      const int64_t next_rows = next == nullptr ? 0 : next->tiles.key_rows + (next->send.size() > 0 ? RowsIn(next->send) : 0);
      const int64_t keys = (rows + next_rows) * key_row * shape.element_bytes;
      const int64_t cast = query_cast + (casts ? step.tiles.key_rows * key_row * shape.accumulate_bytes : 0);
      count.forward_peak = std::max(count.forward_peak, keys + cast);
      const ContextStep* before = t > 0 ? &plan.steps[t - 1] : nullptr;
      const int64_t going_home = before == nullptr || before->own ? 0 : before->tiles.key_rows + RowsIn(before->send);
      const int64_t leaving = step.own ? 0 : RowsIn(step.send);
      count.backward_peak = std::max(count.backward_peak, keys + cast + std::max(rows + going_home, rows + leaving) * key_row * shape.accumulate_bytes);
    }
  }
  return count;
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

AttentionCost CostOfAttention(const Strategy& strategy, const comm::Layout& layout, const AttentionShape& shape, int ranks_per_machine) {
  const comm::Division& division = layout.division();
  const std::vector<RankHeads> split = SplitHeads(shape.heads, shape.kv_heads, division.heads);
  HeadTraffic forward{.bytes_there = shape.element_bytes, .bytes_back = shape.element_bytes}, backward = forward;
  backward.bytes_back = SharesKvHeads(split) ? shape.accumulate_bytes : shape.element_bytes;
  for (const RankHeads& heads : split) {
    forward.there.push_back(heads.packed());
    forward.back.push_back(heads.queries.heads());
    backward.there.push_back(heads.queries.heads());
    backward.back.push_back(heads.packed());
  }
  AttentionCost cost(layout.ranks());
  for (int context = 0; context < division.contexts; ++context) {
    const ContextPlan plan = PlanContext(strategy, layout, context, {.window = shape.window});
    const int64_t tokens = layout.context_tokens(context);
    for (int head = 0; head < division.heads; ++head) {
      const int r = division.Rank(context, head);
      const RankHeads& own = split[head];
      RankCost& rank = cost[r];
      rank.tile_area = plan.area() * static_cast<double>(own.queries.heads());
      TrafficCounter counter(division, r, ranks_per_machine);
      const ContextCount count = CountContext(plan, counter, own, shape, tokens);
      rank.context_forward = count.forward;
      rank.context_backward = count.backward;
      const bool casts = shape.element_bytes != shape.accumulate_bytes;
      const int64_t row = own.packed() * shape.head_dim, query_row = own.queries.heads() * shape.head_dim;
      const int64_t dout_cast = casts ? tokens * query_row * shape.accumulate_bytes : 0;
      int64_t forward_peak = count.forward_peak, backward_peak = count.backward_peak + dout_cast;
      if (division.heads > 1) {
        rank.exchange_forward = CountExchange(layout, counter, head, shape.head_dim, forward);
        rank.exchange_backward = CountExchange(layout, counter, head, shape.head_dim, backward);
        backward_peak += tokens * (row * shape.accumulate_bytes + query_row * shape.element_bytes);
      } else if (casts) {
        backward_peak += tokens * row * shape.accumulate_bytes;
      }
      rank.peak_bytes = std::max(forward_peak, backward_peak);
      // lse, and out in the type of sums where the result is not that itself; the heads at hand of q, k, v where they are not the inputs.
      rank.saved_bytes = tokens * own.queries.heads() * shape.accumulate_bytes;
      if (division.heads > 1 || casts) rank.saved_bytes += tokens * query_row * shape.accumulate_bytes;
      if (division.heads > 1) rank.saved_bytes += tokens * row * shape.element_bytes;
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
