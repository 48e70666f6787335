#include "attention/strategy/context_attention.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "base/memory/memory_account.h"
#include "base/status/torch_status.h"

namespace moonring::attention {
namespace {

using comm::Communicator;

constexpr int64_t kMostSlices = 4;

// Keys and values, or their gradients: [rows, heads, D] and [rows, heads, Dv].
struct KeyValue {
  at::Tensor k_SKD;
  at::Tensor v_SKD;
};

// New contiguous tensors with the head dims of `like`.
KeyValue NewKeyValue(int64_t rows, int64_t heads, const KeyValue& like, at::ScalarType type,
                     bool zero) {
  const int64_t key = like.k_SKD.size(2), value = like.v_SKD.size(2), keys = rows * heads * key,
                values = rows * heads * value;
  const at::TensorOptions options = like.k_SKD.options().dtype(type);
  const at::Tensor both =
      zero ? at::zeros({keys + values}, options) : at::empty({keys + values}, options);
  return {both.narrow(0, 0, keys).view({rows, heads, key}),
          both.narrow(0, keys, values).view({rows, heads, value})};
}

// The rows of the ranges as one contiguous tensor for a transfer; a view if they already are
// contiguous.
at::Tensor PackRows(const at::Tensor& rows_SKD, const std::vector<RowRange>& ranges) {
  if (ranges.size() == 1) return rows_SKD.narrow(0, ranges[0].begin, ranges[0].rows()).contiguous();
  std::vector<at::Tensor> pieces;
  for (const RowRange& range : ranges)
    pieces.push_back(rows_SKD.narrow(0, range.begin, range.rows()));
  return at::cat(pieces);
}

// Distributes the rows of `gathered_SKD` to the ranges of `rows_SKD`, one range after another.
template <typename Put>
void UnpackRows(const at::Tensor& gathered_SKD, const std::vector<RowRange>& ranges,
                const at::Tensor& rows_SKD, const Put& put) {
  int64_t row = 0;
  for (const RowRange& range : ranges) {
    put(rows_SKD.narrow(0, range.begin, range.rows()), gathered_SKD.narrow(0, row, range.rows()));
    row += range.rows();
  }
}

at::Tensor JoinHeads(const std::vector<at::Tensor>& of_slices) {
  return of_slices.size() == 1 ? of_slices[0] : at::cat(of_slices, 1);
}

// A slice: some heads that are processed together. `queries` and `kv` are indices into the heads of
// the call.
struct HeadSlice {
  HeadRange queries, kv;
  RunHeads heads;  // indices count from the slice's first head

  QueryKeyValue Of(const QueryKeyValue& rows) const {
    return {rows.q_THD.narrow(1, queries.begin, queries.heads()),
            rows.k_SKD.narrow(1, kv.begin, kv.heads()), rows.v_SKD.narrow(1, kv.begin, kv.heads())};
  }
};

std::vector<HeadSlice> Slice(const RunHeads& heads, int64_t slices) {
  std::vector<HeadSlice> result;
  const auto groups = static_cast<int64_t>(heads.groups.size());  // one per kv head
  for (int64_t s = 0; s < slices; ++s) {
    const int64_t first = s * groups / slices, last = (s + 1) * groups / slices;
    HeadSlice slice{
        .queries = {heads.groups[first].queries.begin, heads.groups[last - 1].queries.end},
        .kv = {first, last},
        .heads = {.score = heads.score}};
    for (int64_t g = first; g < last; ++g) {
      const HeadGroup& group = heads.groups[g];
      slice.heads.groups.push_back(
          {{group.queries.begin - slice.queries.begin, group.queries.end - slice.queries.begin},
           group.kv - first});
    }
    result.push_back(std::move(slice));
  }
  return result;
}

// An all-gather of rows in progress, or a reduce-scatter of their gradients.
struct Collective {
  KeyValue all;  // the gathered rows, or this rank's sums of gradients
  std::vector<Communicator::Transfer> transfers;
};

// Rows that are being received, and where they are copied to when they have arrived.
struct Incoming {
  struct Piece {
    KeyValue received;
    const KeyMove* move = nullptr;
  };
  std::vector<Piece> pieces;
  std::optional<Communicator::Transfer> transfer;
};

struct Turn {
  const HeadSlice* slice = nullptr;
  const ContextStep* step = nullptr;
  int source = 0;        // index of the turn whose keys are sent
  int start = 0;         // the transfer starts before the computation of the turn with this index
  int last_use = 0;      // the last turn that starts a transfer of these keys; at least this turn
  int open_returns = 0;  // number of turns that forward these keys and whose gradients have not
                         // arrived yet
  KeyValue keys;         // allocated from the start of the transfer to the last use
  KeyValue gradients;    // only in the backward, for keys that are not local
  std::optional<Incoming> incoming;      // transfer of the keys
  std::optional<Collective> collective;  // transfer of the keys, if by an all-gather
};

// One forward or backward call.
class ContextRun {
 public:
  ContextRun(const ContextPlan& plan, const std::vector<int>& ranks, Communicator& group,
             const TileRunner& runner, std::optional<Rows>& of_all, const RunHeads& heads,
             const QueryKeyValue& rows)
      : ranks_(ranks),
        group_(group),
        runner_(runner),
        of_all_(of_all),
        rows_(rows),
        slices_(Slice(heads, SlicesOf(plan, static_cast<int64_t>(heads.groups.size())))) {
    const int steps = static_cast<int>(plan.steps.size());
    compute_type_ = runner.ComputeType(rows.q_THD.scalar_type());
    sum_type_ = AccumulateType(rows.q_THD.scalar_type());
    for (const HeadSlice& slice : slices_) {
      const int first = static_cast<int>(turns_.size());
      for (const ContextStep& step : plan.steps) {
        const int number = static_cast<int>(turns_.size());
        turns_.push_back({.slice = &slice,
                          .step = &step,
                          .source = first + step.source,
                          .start = std::max(0, number - step.lead),
                          .last_use = number});
      }
      TORCH_INTERNAL_ASSERT(static_cast<int>(turns_.size()) == first + steps);
    }
    for (size_t t = 0; t < turns_.size(); ++t) {
      const Turn& turn = turns_[t];
      if (turn.step->own || turn.source == static_cast<int>(t)) continue;
      turns_[turn.source].last_use = std::max(turns_[turn.source].last_use, turn.start);
      ++turns_[turn.source].open_returns;
    }
  }

  void Forward(const SoftmaxState& state) {
    ForEachTurn([&](Turn& turn, const QueryKeyValue& inputs) {
      const HeadRange& queries = turn.slice->queries;
      runner_.Forward(turn.slice->heads, turn.step->tiles, inputs,
                      state.Slice({0, rows_.q_THD.size(0)}, queries.begin, queries.heads()));
    });
  }

  // For a plan of one step that is one kernel call.
  PartialAttention ForwardAtOnce() {
    std::vector<at::Tensor> out, lse;
    ForEachTurn([&](Turn& turn, const QueryKeyValue& inputs) {
      PartialAttention part = runner_.ForwardAtOnce(turn.slice->heads, turn.step->tiles, inputs);
      out.push_back(std::move(part.out_MHD));
      lse.push_back(std::move(part.lse_MH));
    });
    return {JoinHeads(out), JoinHeads(lse)};
  }

  void Backward(const QueryResults& results, const QueryKeyValue& sums) {
    sums_ = {sums.k_SKD, sums.v_SKD};
    ForEachTurnBackward([&](Turn& turn, const QueryKeyValue& inputs) {
      if (!turn.step->own)
        turn.gradients =
            NewKeyValue(inputs.k_SKD.size(0), inputs.k_SKD.size(1), LocalKeys(), sum_type_,
                        /*zero=*/true);
      const KeyValue gradients = turn.step->own ? LocalGradients(turn) : turn.gradients;
      runner_.Backward(turn.slice->heads, turn.step->tiles, inputs, ResultsOf(*turn.slice, results),
                       {QueriesOf(*turn.slice, sums.q_THD), gradients.k_SKD, gradients.v_SKD});
    });
  }

  QueryKeyValue BackwardAtOnce(const QueryResults& results, const QueryKeyValue& freed) {
    const bool travels = !turns_.front().step->own;
    if (travels)
      sums_ = NewKeyValue(rows_.k_SKD.size(0), rows_.k_SKD.size(1), LocalKeys(), sum_type_,
                          /*zero=*/true);
    std::vector<at::Tensor> dq, dk, dv;
    ForEachTurnBackward([&](Turn& turn, const QueryKeyValue& inputs) {
      // With a single turn, the turn's inputs are all rows, and its gradients are the gradients of
      // all rows.
      QueryKeyValue part = runner_.BackwardAtOnce(
          turn.slice->heads, turn.step->tiles, inputs, ResultsOf(*turn.slice, results),
          travels || turns_.size() > 1 ? QueryKeyValue() : freed);
      dq.push_back(std::move(part.q_THD));
      if (travels) {
        turn.gradients = {part.k_SKD.to(sum_type_), part.v_SKD.to(sum_type_)};
      } else {
        dk.push_back(std::move(part.k_SKD));
        dv.push_back(std::move(part.v_SKD));
      }
    });
    if (travels) return {JoinHeads(dq), sums_.k_SKD, sums_.v_SKD};
    return {JoinHeads(dq), JoinHeads(dk), JoinHeads(dv)};
  }

 private:
  // A transfer of gradients in the backward. The gradients of a turn's keys are sent to the rank
  // that sent these keys; at the same time, gradients are received for the keys that this rank sent
  // to others.
  struct Return {
    Turn* turn = nullptr;
    Incoming incoming;
    std::optional<Collective> collective = {};
  };

  // ---- The loops of the forward and of the backward.

  template <typename Compute>
  void ForEachTurn(const Compute& compute) {
    if (turns_.empty()) return;
    StartDueTransfers(-1);
    for (size_t t = 0; t < turns_.size(); ++t) {
      Turn& turn = turns_[t];
      WaitForKeys(turn);
      StartDueTransfers(static_cast<int>(t));
      compute(turn, InputsOf(turn));
      for (Turn& before : turns_) {
        if (before.last_use <= static_cast<int>(t) && &before <= &turn) before.keys = {};
      }
    }
  }

  // As ForEachTurn, where `compute` computes the gradients of a turn. Gradients of received keys
  // are sent back while the next turn is computed.
  template <typename Compute>
  void ForEachTurnBackward(const Compute& compute) {
    std::deque<Return> returns;  // in transfer, in the order in which they were started
    ForEachTurn([&](Turn& turn, const QueryKeyValue& inputs) {
      compute(turn, inputs);
      for (size_t left = returns.size(); left > 0; --left) AddReturnedGradients(returns);
      if (!turn.step->own && turn.open_returns == 0) returns.push_back(ReturnGradients(turn));
    });
    while (!returns.empty()) AddReturnedGradients(returns);
  }

  // ---- Transfers of keys.

  // Starts the transfers that should run while turn `now` is computed. now = -1: starts the
  // transfer of the first turn's keys.
  void StartDueTransfers(int now) {
    for (size_t t = 0; t < turns_.size(); ++t) {
      Turn& turn = turns_[t];
      const bool due = now < 0 ? t == 0 : t > 0 && turn.start == now;
      if (due && !turn.step->own) StartTransfer(turn);
    }
  }

  void StartTransfer(Turn& turn) {
    const base::MemoryScope memory(base::MemoryPart::kCommunication);
    if (!turn.step->of_all.empty()) return StartAllGather(turn);
    const int64_t rows = turn.step->tiles.key_rows, heads = turn.slice->kv.heads();
    turn.keys = NewKeyValue(rows, heads, LocalKeys(), rows_.k_SKD.scalar_type(), /*zero=*/false);
    turn.incoming = Exchange(KeysToSend(turn), turn.step->send, turn.keys, turn.step->receive);
  }

  void StartAllGather(Turn& turn) {
    const std::vector<int64_t> rows = RowsOfRanks();
    const int64_t each = rows.front(), places = static_cast<int64_t>(rows.size());
    Collective gather{NewKeyValue(places * each, turn.slice->kv.heads(), LocalKeys(),
                                  rows_.k_SKD.scalar_type(), /*zero=*/false),
                      {}};
    const KeyValue own = KeysToSend(turn);
    gather.all.k_SKD.narrow(0, group_.rank() * each, each).copy_(own.k_SKD);
    gather.all.v_SKD.narrow(0, group_.rank() * each, each).copy_(own.v_SKD);
    gather.transfers.push_back(base::ValueOrThrow(
        group_.StartAllGather({{gather.all.k_SKD, rows}, {gather.all.v_SKD, rows}})));
    turn.collective = std::move(gather);
  }

  void WaitForKeys(Turn& turn) {
    if (turn.collective.has_value()) {
      Wait(*turn.collective);
      turn.keys = {KeyRows(turn).Of(turn.collective->all.k_SKD),
                   KeyRows(turn).Of(turn.collective->all.v_SKD)};
      turn.collective.reset();
      return;
    }
    if (!turn.incoming) return;
    base::ThrowIfError(turn.incoming->transfer->Wait());
    const auto copy = [](const at::Tensor& to, const at::Tensor& from) { to.copy_(from); };
    for (const Incoming::Piece& piece : turn.incoming->pieces) {
      UnpackRows(piece.received.k_SKD, piece.move->rows, turn.keys.k_SKD, copy);
      UnpackRows(piece.received.v_SKD, piece.move->rows, turn.keys.v_SKD, copy);
    }
    turn.incoming.reset();
  }

  // Starts sending rows of `from` and receiving rows of `into`.
  Incoming Exchange(const KeyValue& from, const std::vector<KeyMove>& send, const KeyValue& into,
                    const std::vector<KeyMove>& receive) {
    Incoming incoming;
    std::vector<Communicator::Message> sent, received;
    for (const KeyMove& move : send) {
      sent.push_back({PackRows(from.k_SKD, move.rows), ranks_[move.place]});
      sent.push_back({PackRows(from.v_SKD, move.rows), ranks_[move.place]});
    }
    for (const KeyMove& move : receive) {
      const bool in_place = move.rows.size() == 1;
      const auto place = [&](const at::Tensor& rows) {
        return rows.narrow(0, move.rows[0].begin, move.rows[0].rows());
      };
      const KeyValue piece = in_place ? KeyValue{place(into.k_SKD), place(into.v_SKD)}
                                      : NewKeyValue(move.count(), into.k_SKD.size(1), into,
                                                    into.k_SKD.scalar_type(), /*zero=*/false);
      received.push_back({piece.k_SKD, ranks_[move.place]});
      received.push_back({piece.v_SKD, ranks_[move.place]});
      if (!in_place) incoming.pieces.push_back({piece, &move});
    }
    incoming.transfer = base::ValueOrThrow(group_.Exchange(std::move(sent), std::move(received)));
    return incoming;
  }

  // ---- Transfers of gradients.

  // Starts to send the gradients of a turn's keys to the senders of the keys.
  Return ReturnGradients(Turn& turn) {
    const base::MemoryScope memory(base::MemoryPart::kCommunication);
    if (!turn.step->of_all.empty()) return ReturnByReduceScatter(turn);
    // Received gradients get a separate buffer, since they are then added to sums.
    Return started{&turn, {}};
    std::vector<Communicator::Message> sent, received;
    for (const KeyMove& move : turn.step->receive) {
      sent.push_back({PackRows(turn.gradients.k_SKD, move.rows), ranks_[move.place]});
      sent.push_back({PackRows(turn.gradients.v_SKD, move.rows), ranks_[move.place]});
    }
    for (const KeyMove& move : turn.step->send) {
      const KeyValue piece =
          NewKeyValue(move.count(), turn.slice->kv.heads(), LocalKeys(), sum_type_, /*zero=*/false);
      received.push_back({piece.k_SKD, ranks_[move.place]});
      received.push_back({piece.v_SKD, ranks_[move.place]});
      started.incoming.pieces.push_back({piece, &move});
    }
    started.incoming.transfer =
        base::ValueOrThrow(group_.Exchange(std::move(sent), std::move(received)));
    turn.gradients = {};
    return started;
  }

  // As ReturnGradients, by a reduce-scatter of the gradients of all gathered rows: each owner gets
  // the sums for its rows.
  Return ReturnByReduceScatter(Turn& turn) {
    const std::vector<int64_t> rows = RowsOfRanks();
    const KeyValue all = NewKeyValue(static_cast<int64_t>(rows.size()) * rows.front(),
                                     turn.slice->kv.heads(), LocalKeys(), sum_type_, /*zero=*/true);
    KeyRows(turn).Put(turn.gradients.k_SKD, all.k_SKD);
    KeyRows(turn).Put(turn.gradients.v_SKD, all.v_SKD);
    turn.gradients = {};
    Collective sums;
    const auto add_up = [&](const at::Tensor& gradients) {
      Communicator::Reduction reduction =
          base::ValueOrThrow(group_.StartReduceScatterSum(gradients, rows));
      sums.transfers.push_back(std::move(reduction.transfer));
      return reduction.sum;
    };
    sums.all.k_SKD = add_up(all.k_SKD);
    sums.all.v_SKD = add_up(all.v_SKD);
    return {&turn, {}, std::move(sums)};
  }

  // Waits for the oldest return and adds the gradients that arrived. If the gradients of a source
  // turn are then complete, starts to return them.
  void AddReturnedGradients(std::deque<Return>& returns) {
    Return done = std::move(returns.front());
    returns.pop_front();
    if (done.collective.has_value()) {
      Wait(*done.collective);
      const KeyValue own = LocalGradients(*done.turn);
      own.k_SKD.add_(done.collective->all.k_SKD);
      own.v_SKD.add_(done.collective->all.v_SKD);
      return;
    }
    base::ThrowIfError(done.incoming.transfer->Wait());
    Turn& source = turns_[done.turn->source];
    const bool to_own = &source == done.turn || source.step->own;
    const KeyValue into = to_own ? LocalGradients(*done.turn) : source.gradients;
    const auto add = [](const at::Tensor& to, const at::Tensor& from) { to.add_(from); };
    for (const Incoming::Piece& piece : done.incoming.pieces) {
      UnpackRows(piece.received.k_SKD, piece.move->rows, into.k_SKD, add);
      UnpackRows(piece.received.v_SKD, piece.move->rows, into.v_SKD, add);
    }
    if (&source != done.turn && --source.open_returns == 0 && !source.step->own)
      returns.push_back(ReturnGradients(source));
  }

  static void Wait(Collective& collective) {
    for (Communicator::Transfer& transfer : collective.transfers)
      base::ThrowIfError(transfer.Wait());
  }

  // ---- The tensors of a turn.

  // The local keys and values of all heads.
  KeyValue LocalKeys() const { return {rows_.k_SKD, rows_.v_SKD}; }
  // Those of a turn's heads.
  KeyValue LocalKeys(const Turn& turn) const {
    const QueryKeyValue own = turn.slice->Of(rows_);
    return {own.k_SKD, own.v_SKD};
  }

  KeyValue KeysOf(const Turn& turn) const { return turn.step->own ? LocalKeys(turn) : turn.keys; }

  // The keys whose rows a turn sends: those of its source turn, or the local keys if the turn is
  // its own source.
  KeyValue KeysToSend(const Turn& turn) const {
    const Turn& source = turns_[turn.source];
    return &source == &turn ? LocalKeys(turn) : KeysOf(source);
  }

  // The sums of the gradients of the local keys, of a turn's heads.
  KeyValue LocalGradients(const Turn& turn) const {
    const HeadRange& kv = turn.slice->kv;
    return {sums_.k_SKD.narrow(1, kv.begin, kv.heads()),
            sums_.v_SKD.narrow(1, kv.begin, kv.heads())};
  }

  // The rows of a turn's keys among the rows that an all-gather returns.
  const Rows& KeyRows(const Turn& turn) const {
    if (!of_all_.has_value()) of_all_.emplace(turn.step->of_all, rows_.k_SKD.device());
    return *of_all_;
  }

  // The number of rows of each context rank. Used only with native collectives, where all context
  // ranks have equally many.
  std::vector<int64_t> RowsOfRanks() const {
    return std::vector<int64_t>(ranks_.size(), rows_.k_SKD.size(0));
  }

  QueryKeyValue InputsOf(const Turn& turn) {
    if (turn.slice != computed_) {
      computed_ = turn.slice;
      query_ = turn.slice->Of(rows_).q_THD.to(compute_type_);
    }
    const KeyValue keys = KeysOf(turn);
    return {query_, keys.k_SKD.to(compute_type_), keys.v_SKD.to(compute_type_)};
  }

  static at::Tensor QueriesOf(const HeadSlice& slice, const at::Tensor& rows) {
    return rows.narrow(1, slice.queries.begin, slice.queries.heads());
  }
  static QueryResults ResultsOf(const HeadSlice& slice, const QueryResults& results) {
    return {QueriesOf(slice, results.dout_THD), QueriesOf(slice, results.out_THD),
            QueriesOf(slice, results.lse_TH)};
  }

  const std::vector<int>& ranks_;
  Communicator& group_;
  const TileRunner& runner_;
  std::optional<Rows>& of_all_;  // belongs to the plan; made at the first use
  QueryKeyValue rows_;
  KeyValue sums_;  // gradients of the local keys
  std::vector<HeadSlice> slices_;
  std::vector<Turn> turns_;
  at::ScalarType compute_type_, sum_type_;
  const HeadSlice* computed_ = nullptr;  // the slice whose queries are in query_
  at::Tensor query_;
};

}  // namespace

int64_t SlicesOf(const ContextPlan& plan, int64_t kv_heads) {
  return plan.sliced ? std::min(kMostSlices, kv_heads) : std::min<int64_t>(1, kv_heads);
}

PartialAttention ContextAttention::Forward(const RunHeads& heads, const QueryKeyValue& rows) const {
  if (IsOneCall(heads, rows))
    return ContextRun(plan_, ranks_, *group_, *runner_, of_all_, heads, rows).ForwardAtOnce();
  const at::Tensor& q = rows.q_THD;
  SoftmaxState state = SoftmaxState::Empty(q.size(0), q.size(1), rows.v_SKD.size(2),
                                           q.options().dtype(AccumulateType(q.scalar_type())));
  ContextRun(plan_, ranks_, *group_, *runner_, of_all_, heads, rows).Forward(state);
  return Finish(std::move(state));
}

void ContextAttention::Backward(const RunHeads& heads, const QueryKeyValue& rows,
                                const QueryResults& results, const QueryKeyValue& sums) const {
  const at::ScalarType type = runner_->ComputeType(rows.q_THD.scalar_type());
  ContextRun(plan_, ranks_, *group_, *runner_, of_all_, heads, rows)
      .Backward({results.dout_THD.to(type), results.out_THD, results.lse_TH}, sums);
}

QueryKeyValue ContextAttention::BackwardAtOnce(const RunHeads& heads, const QueryKeyValue& rows,
                                               const QueryResults& results,
                                               const QueryKeyValue& freed) const {
  return ContextRun(plan_, ranks_, *group_, *runner_, of_all_, heads, rows)
      .BackwardAtOnce(results, freed);
}

bool ContextAttention::IsOneCall(const RunHeads& heads, const QueryKeyValue& rows) const {
  return plan_.steps.size() == 1 && !heads.groups.empty() &&
         runner_->IsOneCall(plan_.steps.front().tiles, rows.q_THD.device());
}

}  // namespace moonring::attention
