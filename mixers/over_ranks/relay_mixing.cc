#include "mixers/over_ranks/relay_mixing.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include "base/autograd/custom_function.h"
#include "base/memory/to_device.h"
#include "base/status/torch_status.h"
#include "comm/row_exchange.h"
#include "mixers/over_ranks/local_mixing.h"
#include "mixers/over_ranks/relay_schedule.h"
#include "mixers/rule/delta_pass.h"
#include "mixers/rule/document_chunks.h"
#include "mixers/rule/packed_heads.h"
#include "mixers/rule/span_rows.h"

namespace moonring::mixers {
namespace {

DeltaInputs HeadsOf(const DeltaInputs& inputs, const HeadSlice& heads) {
  return {heads.OfKeys(inputs.q_THK), heads.OfKeys(inputs.k_THK),     heads.OfValues(inputs.v_THV),
          heads.OfValues(inputs.g),   heads.OfValues(inputs.beta_TH), {}};
}

DeltaInputs InputsFrom(const base::Tensors& saved) {
  return {saved[0], saved[1], saved[2], saved[3], saved[4], {}};
}

}  // namespace

// Computes a rank's spans of the documents of one generation (generations.h). One object is shared
// by all layers.
class RelayMixing::Relay {
 public:
  Relay(const comm::SpansOfRanks& spans_of_ranks, std::shared_ptr<comm::Communicator> group)
      : group_(std::move(group)), chains_(spans_of_ranks, group_->rank()) {
    for (const comm::Span& span : spans_of_ranks[group_->rank()]) lengths_.push_back(span.tokens());
    for (size_t span = 0; span < lengths_.size(); ++span) {
      first_.push_back(chains_.continues(span) ? -1 : begins_++);
      last_.push_back(chains_.goes_on(span) ? -1 : ends_++);
    }
    std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> spans;  // by (index in the chain,
                                                                        // length of the chain)
    for (const auto& chain : chains_.chains())
      for (size_t i = 0; i < chain.size(); ++i)
        if (chain[i].rank == group_->rank())
          spans[{static_cast<int64_t>(i), static_cast<int64_t>(chain.size())}].push_back(
              chain[i].span);
    for (auto& [at, numbers] : spans) {
      std::sort(numbers.begin(), numbers.end());
      teams_.push_back({at.first, at.second, SpanRows(lengths_, std::move(numbers))});
    }
    std::vector<int64_t> whole;
    for (size_t span = 0; span < lengths_.size(); ++span)
      if (!chains_.continues(span) && !chains_.goes_on(span))
        whole.push_back(static_cast<int64_t>(span));
    if (!whole.empty()) whole_.push_back({0, 1, SpanRows(lengths_, std::move(whole))});
  }

  const std::vector<int64_t>& lengths() const { return lengths_; }

  // Returns the outputs, and the final state of each span that ends its document. `inputs` must
  // have the initial state of each span that begins a document. `saved` receives the tensors that
  // Backward needs.
  DeltaResult Forward(const DeltaInputs& inputs, const DeltaOptions& options,
                      base::Tensors* saved) const {
    const std::vector<HeadSlice> groups = GroupsOf(inputs);
    const at::Tensor out = at::empty_like(inputs.v_THV, at::MemoryFormat::Contiguous);
    const at::Tensor last = StatesOf(inputs, ends_);
    std::map<Turn, at::Tensor> states;
    Run(ScanOrder::kForward, inputs, groups, {inputs.initial_DHVK, last},
        [&](const Turn& turn, const Team& team, const HeadSlice& heads, const at::Tensor& came) {
          DeltaInputs own = team.rows.Of(HeadsOf(inputs, heads));
          own.initial_DHVK = came;
          const DeltaPass pass = DeltaForward(own, GridOf(team, inputs), options);
          team.rows.Put(heads.OfValues(out), pass.out_THV);
          states[turn] = pass.states_NHVK;
          return pass.final_DHVK;
        });
    *saved = {inputs.q_THK, inputs.k_THK, inputs.v_THV, inputs.g, inputs.beta_TH};
    for (const auto& [turn, of_turn] : states) saved->push_back(of_turn);
    return {out, last};
  }

  // Computes the gradients of all inputs, with the initial states, from the gradients of the
  // outputs and of the final states. Either of these may be undefined.
  base::Tensors Backward(const base::Tensors& saved, const DeltaOptions& options,
                         const at::Tensor& d_out_or_none, const at::Tensor& d_last) const {
    const DeltaInputs inputs = InputsFrom(saved);
    const at::Tensor d_out = d_out_or_none.defined() ? d_out_or_none : at::zeros_like(inputs.v_THV);
    const at::Tensor d_first = StatesOf(inputs, begins_);
    const std::vector<HeadSlice> groups = GroupsOf(inputs);
    std::map<Turn, at::Tensor> states;
    ForEachTurn(groups.size(), [&](const Turn& turn) { states[turn]; });
    size_t next = 5;
    for (auto& [turn, of_turn] : states) of_turn = saved[next++];
    base::Tensors gradients;
    for (size_t i = 0; i < 5; ++i)
      gradients.push_back(at::empty_like(saved[i], at::MemoryFormat::Contiguous));
    const DeltaInputs all = InputsFrom(gradients);
    Run(ScanOrder::kBackward, inputs, groups, {d_last, d_first},
        [&](const Turn& turn, const Team& team, const HeadSlice& heads, const at::Tensor& came) {
          const DeltaInputs made = DeltaBackward(team.rows.Of(HeadsOf(inputs, heads)), states[turn],
                                                 GridOf(team, inputs), options,
                                                 team.rows.Of(heads.OfValues(d_out)), came);
          states[turn] = at::Tensor();
          const DeltaInputs into = HeadsOf(all, heads);
          team.rows.Put(into.q_THK, made.q_THK);
          team.rows.Put(into.k_THK, made.k_THK);
          team.rows.Put(into.v_THV, made.v_THV);
          team.rows.Put(into.g, made.g);
          team.rows.Put(into.beta_TH, made.beta_TH);
          return made.initial_DHVK;
        });
    gradients.push_back(d_first);
    return gradients;
  }

 private:
  // States at the ends of chains, in the direction of the run (forward or backward). come_DHVK:
  // states that enter the first spans; may be undefined. leave_DHVK: states that leave the last
  // spans.
  struct Ends {
    at::Tensor come_DHVK, leave_DHVK;
  };

  // This rank's spans that have the same index in equally long chains. They are processed together,
  // in the forward and in the backward.
  struct Team {
    int64_t place, places;
    SpanRows rows;
  };
  // One unit of work: a team's index and a group of heads. Documents that are whole on this rank
  // are one more team, the last one; all heads are its group 0.
  using Turn = std::pair<size_t, int64_t>;

  std::vector<HeadSlice> GroupsOf(const DeltaInputs& inputs) const {
    const int64_t keys = inputs.k_THK.size(1), of_key = inputs.v_THV.size(1) / keys;
    std::vector<HeadSlice> groups;
    int64_t begin = 0;
    for (const int64_t size : RelayGroups(chains_, keys)) {
      groups.push_back({begin, size, of_key});
      begin += size;
    }
    return groups;
  }

  static at::Tensor StatesOf(const DeltaInputs& inputs, int64_t rows) {
    return at::empty({rows, inputs.v_THV.size(1), inputs.v_THV.size(2), inputs.k_THK.size(2)},
                     inputs.v_THV.options().dtype(StateDtype(inputs)));
  }

  // The indices of a team's spans among the spans that begin (or end) documents, which index the
  // rows of state tensors.
  static at::Tensor RowsOf(const Team& team, const std::vector<int64_t>& row_of_span,
                           at::Device device) {
    std::vector<int64_t> rows;
    for (const int64_t span : team.rows.spans()) rows.push_back(row_of_span[span]);
    return base::ToDevice(rows, device);
  }

  static DocumentChunks GridOf(const Team& team, const DeltaInputs& inputs) {
    return {team.rows.lengths(), kDeltaChunk, inputs.v_THV.device()};
  }

  void ForEachTurn(size_t groups, const std::function<void(const Turn&)>& call) const {
    for (size_t team = 0; team < teams_.size(); ++team)
      for (size_t group = 0; group < groups; ++group) call({team, static_cast<int64_t>(group)});
    if (!whole_.empty()) call({teams_.size(), 0});
  }

  // Runs the rounds. `work` gets the states that enter a team's spans (undefined: zeros) and
  // returns the states that leave them: [D, heads, d_v, d_k].
  using Work =
      std::function<at::Tensor(const Turn&, const Team&, const HeadSlice&, const at::Tensor& came)>;
  void Run(ScanOrder order, const DeltaInputs& inputs, const std::vector<HeadSlice>& groups,
           const Ends& ends, const Work& work) const {
    const bool forward = order == ScanOrder::kForward;
    const auto place = [&](const Team& team) {
      return forward ? team.place : team.places - 1 - team.place;
    };
    const at::Device device = inputs.v_THV.device();
    // States that enter a team which is first in the order; and where those that leave a team which
    // is last are stored.
    const auto coming = [&](const Team& team, const HeadSlice& heads) {
      if (!ends.come_DHVK.defined()) return at::Tensor();
      return heads.OfValues(ends.come_DHVK)
          .index_select(0, RowsOf(team, forward ? first_ : last_, device));
    };
    const auto leave = [&](const Team& team, const HeadSlice& heads, const at::Tensor& states) {
      heads.OfValues(ends.leave_DHVK)
          .index_copy_(0, RowsOf(team, forward ? last_ : first_, device), states);
    };
    bool first = false;
    for (const Team& team : teams_) first |= place(team) == 0;
    const auto run_whole = [&] {
      if (whole_.empty()) return;
      const int64_t keys = inputs.k_THK.size(1);
      const HeadSlice all{0, keys, inputs.v_THV.size(1) / keys};
      leave(whole_[0], all, work({teams_.size(), 0}, whole_[0], all, coming(whole_[0], all)));
    };
    if (!first) run_whole();
    const int64_t count = static_cast<int64_t>(groups.size());
    std::vector<at::Tensor> came(lengths_.size()), made(lengths_.size());  // by span
    for (int64_t round = 0; round < RelayRounds(chains_, count); ++round) {
      for (size_t t = 0; t < teams_.size(); ++t) {
        const Team& team = teams_[t];
        const int64_t group = round - place(team);
        if (group < 0 || group >= count) continue;
        const at::Tensor states =
            work({t, group}, team, groups[group],
                 place(team) == 0 ? coming(team, groups[group]) : Take(team, came));
        if (place(team) == team.places - 1) leave(team, groups[group], states);
        for (size_t i = 0; i < team.rows.spans().size(); ++i)
          made[team.rows.spans()[i]] = states[static_cast<int64_t>(i)];
      }
      HandOn(order, round, inputs, groups, made, came);
    }
    if (first) run_whole();
  }

  static at::Tensor Take(const Team& team, std::vector<at::Tensor>& came) {
    std::vector<at::Tensor> states;
    for (const int64_t span : team.rows.spans())
      states.push_back(std::exchange(came[span], at::Tensor()));
    return at::stack(states);
  }

  void HandOn(ScanOrder order, int64_t round, const DeltaInputs& inputs,
              const std::vector<HeadSlice>& groups, const std::vector<at::Tensor>& made,
              std::vector<at::Tensor>& came) const {
    std::vector<comm::Communicator::Message> send, receive;
    const auto options = inputs.v_THV.options().dtype(StateDtype(inputs));
    for (const RelayHop& hop :
         HopsAfter(chains_, order, static_cast<int64_t>(groups.size()), round)) {
      if (hop.from.rank == group_->rank())
        send.push_back({made[hop.from.span].contiguous(), hop.to.rank});
      if (hop.to.rank != group_->rank()) continue;
      const HeadSlice& heads = groups[hop.group];
      came[hop.to.span] = at::empty(
          {heads.keys * heads.groups, inputs.v_THV.size(2), inputs.k_THK.size(2)}, options);
      receive.push_back({came[hop.to.span], hop.from.rank});
    }
    if (send.empty() && receive.empty()) return;
    auto transfer = base::ValueOrThrow(group_->Exchange(std::move(send), std::move(receive)));
    base::ThrowIfError(transfer.Wait());
  }

  std::shared_ptr<comm::Communicator> group_;
  SpanChains chains_;
  std::vector<int64_t> lengths_;  // tokens of this rank's spans
  // For each span: its index among the spans that begin their document (first_), or end it (last_);
  // -1: the span does not.
  std::vector<int64_t> first_, last_;
  int64_t begins_ = 0, ends_ = 0;
  std::vector<Team> teams_;
  std::vector<Team> whole_;  // the team of whole documents; empty if there are none
};

RelayMixing::RelayMixing(std::shared_ptr<const comm::Layout> layout,
                         std::shared_ptr<comm::Communicator> group,
                         const std::vector<comm::Parent>& parents)
    : group_(std::move(group)),
      generations_(*layout, parents, group_->rank()),
      convolution_(comm::SpansOf(*layout), group_, parents) {
  for (size_t g = 0; g < generations_.size(); ++g)
    relays_.push_back(std::make_shared<const Relay>(generations_.spans(g), group_));
}

at::Tensor RelayMixing::Delta(const DeltaCall& call) {
  const at::Tensor qkv_TC = call.taps_CW.defined() ? Convolve(ConvolutionOf(call)) : call.x_TC;
  const DeltaInputs inputs = InputsOf(call, qkv_TC);
  const auto rule = [&](size_t generation, const DeltaInputs& own) -> DeltaResult {
    const std::shared_ptr<const Relay>& relay = relays_[generation];
    DeltaInputs unstated = own;
    unstated.initial_DHVK = at::Tensor();
    CheckDeltaInputs(unstated, relay->lengths());
    const base::Tensors made = base::Apply(
        {.name = "gated delta rule by relay",
         .forward = [&](base::Tensors* saved) -> base::Tensors {
           const DeltaResult result = relay->Forward(own, call.options, saved);
           return {result.out_THV, result.final_DHVK};
         },
         .backward = [relay, options = call.options](base::BackwardCall& call) -> base::Tensors {
           base::Tensors gradients =
               relay->Backward(call.saved, options, call.gradients[0], call.gradients[1]);
           if (!call.wanted[5]) gradients.pop_back();
           return gradients;
         },
         .undefined_gradients = true},
        {own.q_THK, own.k_THK, own.v_THV, own.g, own.beta_TH, own.initial_DHVK});
    return {made[0], made[1]};
  };
  return WithSkip(generations_.Run(inputs, group_, rule), inputs.v_THV, call.skip_H);
}

}  // namespace moonring::mixers
