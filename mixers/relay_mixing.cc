#include "mixers/relay_mixing.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>

#include "comm/autograd/custom_function.h"
#include "comm/status/torch_status.h"
#include "mixers/delta_pass.h"
#include "mixers/document_chunks.h"
#include "mixers/local_mixing.h"
#include "mixers/packed_heads.h"
#include "mixers/relay_schedule.h"
#include "mixers/span_rows.h"

namespace moonring::mixers {
namespace {

DeltaInputs HeadsOf(const DeltaInputs& inputs, const HeadSlice& heads) {
  return {heads.OfKeys(inputs.q_THK), heads.OfKeys(inputs.k_THK),     heads.OfValues(inputs.v_THV),
          heads.OfValues(inputs.g),   heads.OfValues(inputs.beta_TH), {}};
}

DeltaInputs InputsFrom(const comm::Tensors& saved) {
  return {saved[0], saved[1], saved[2], saved[3], saved[4], {}};
}

}  // namespace

// The spans of a rank and what is done with them; the same in every layer.
class RelayMixing::Relay {
 public:
  Relay(const comm::Layout& layout, std::shared_ptr<comm::Communicator> group)
      : group_(std::move(group)), chains_(comm::SpansOf(layout), group_->rank()) {
    for (const comm::Span& span : layout.spans(group_->rank())) lengths_.push_back(span.tokens());
    std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> spans;  // by place and places
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

  // `saved`: what Backward takes beside the gradient of the outputs.
  at::Tensor Forward(const DeltaInputs& inputs, const DeltaOptions& options,
                     comm::Tensors* saved) const {
    const std::vector<HeadSlice> groups = GroupsOf(inputs);
    const at::Tensor out = at::empty_like(inputs.v_THV, at::MemoryFormat::Contiguous);
    std::map<Turn, at::Tensor> states;
    Run(ScanOrder::kForward, inputs, groups,
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
    return out;
  }

  comm::Tensors Backward(const comm::Tensors& saved, const DeltaOptions& options,
                         const at::Tensor& d_out) const {
    const DeltaInputs inputs = InputsFrom(saved);
    const std::vector<HeadSlice> groups = GroupsOf(inputs);
    std::map<Turn, at::Tensor> states;
    ForEachTurn(groups.size(), [&](const Turn& turn) { states[turn]; });
    size_t next = 5;
    for (auto& [turn, of_turn] : states) of_turn = saved[next++];
    comm::Tensors gradients;
    for (size_t i = 0; i < 5; ++i)
      gradients.push_back(at::empty_like(saved[i], at::MemoryFormat::Contiguous));
    const DeltaInputs all = InputsFrom(gradients);
    Run(ScanOrder::kBackward, inputs, groups,
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
    return gradients;
  }

 private:
  // Spans that are at one place of equally long chains: they go side by side both ways.
  struct Team {
    int64_t place, places;
    SpanRows rows;
  };
  // A team's number and a group; whole documents are the team after the others, and have all heads
  // as group 0.
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

  static DocumentChunks GridOf(const Team& team, const DeltaInputs& inputs) {
    return {team.rows.lengths(), kDeltaChunk, inputs.v_THV.device()};
  }

  void ForEachTurn(size_t groups, const std::function<void(const Turn&)>& call) const {
    for (size_t team = 0; team < teams_.size(); ++team)
      for (size_t group = 0; group < groups; ++group) call({team, static_cast<int64_t>(group)});
    if (!whole_.empty()) call({teams_.size(), 0});
  }

  // `work` takes the states that came to a team's spans (undefined: none) and gives those to hand
  // on: [D, heads, d_v, d_k].
  using Work =
      std::function<at::Tensor(const Turn&, const Team&, const HeadSlice&, const at::Tensor& came)>;
  void Run(ScanOrder order, const DeltaInputs& inputs, const std::vector<HeadSlice>& groups,
           const Work& work) const {
    const auto place = [&](const Team& team) {
      return order == ScanOrder::kForward ? team.place : team.places - 1 - team.place;
    };
    bool first = false;
    for (const Team& team : teams_) first |= place(team) == 0;
    const auto run_whole = [&] {
      if (whole_.empty()) return;
      const int64_t keys = inputs.k_THK.size(1);
      work({teams_.size(), 0}, whole_[0], {0, keys, inputs.v_THV.size(1) / keys}, {});
    };
    if (!first) run_whole();
    const int64_t count = static_cast<int64_t>(groups.size());
    std::vector<at::Tensor> came(lengths_.size()), made(lengths_.size());  // by span
    for (int64_t round = 0; round < RelayRounds(chains_, count); ++round) {
      for (size_t t = 0; t < teams_.size(); ++t) {
        const Team& team = teams_[t];
        const int64_t group = round - place(team);
        if (group < 0 || group >= count) continue;
        const at::Tensor states = work({t, group}, team, groups[group],
                                       place(team) == 0 ? at::Tensor() : Take(team, came));
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
    auto transfer = comm::ValueOrThrow(group_->Exchange(std::move(send), std::move(receive)));
    comm::ThrowIfError(transfer.Wait());
  }

  std::shared_ptr<comm::Communicator> group_;
  SpanChains chains_;
  std::vector<int64_t> lengths_;  // of this rank's spans
  std::vector<Team> teams_;
  std::vector<Team> whole_;  // one, or none
};

RelayMixing::RelayMixing(std::shared_ptr<const comm::Layout> layout,
                         std::shared_ptr<comm::Communicator> group)
    : relay_(std::make_shared<const Relay>(*layout, group)),
      convolution_(comm::SpansOf(*layout), group) {}

at::Tensor RelayMixing::Delta(const DeltaCall& call) {
  const at::Tensor qkv_TC = call.taps_CW.defined() ? Convolve(ConvolutionOf(call)) : call.x_TC;
  const DeltaInputs inputs = InputsOf(call, qkv_TC);
  CheckDeltaInputs(inputs, relay_->lengths());
  const at::Tensor out_THV = comm::ApplyToOne(
      {.name = "gated delta rule by relay",
       .forward = [&](comm::Tensors* saved) -> comm::Tensors {
         return {relay_->Forward(inputs, call.options, saved)};
       },
       .backward = [relay = relay_, options = call.options](comm::BackwardCall& call)
           -> comm::Tensors { return relay->Backward(call.saved, options, call.gradients[0]); }},
      {inputs.q_THK, inputs.k_THK, inputs.v_THV, inputs.g, inputs.beta_TH});
  return WithSkip(out_THV, inputs.v_THV, call.skip_H);
}

}  // namespace moonring::mixers
