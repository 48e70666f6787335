#include "attention/strategy/hybrid_attention.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "attention/kernels/head_split.h"
#include "attention/kernels/sink.h"
#include "attention/strategy/attention_function.h"
#include "attention/strategy/context_attention.h"
#include "attention/strategy/head_exchange.h"
#include "base/memory/unshared.h"

namespace moonring::attention {
namespace {

at::Tensor Zeros(const at::Tensor& rows, at::ScalarType type) {
  return at::zeros(rows.sizes(), rows.options().dtype(type));
}

QueryKeyValue To(at::ScalarType type, const QueryKeyValue& rows) {
  return {rows.q_THD.to(type), rows.k_SKD.to(type), rows.v_SKD.to(type)};
}

// The saved tensor, for reuse of its memory, if no other tensor shares this memory; else an
// undefined tensor.
at::Tensor Freed(const at::Tensor& saved) {
  return base::IsUnshared(saved) ? saved.detach() : at::Tensor();
}

// One rank's operator for one score rule.
class HybridOperator final : public AttentionOperator {
 public:
  HybridOperator(const comm::Layout& layout, ContextPlan plan,
                 const std::shared_ptr<comm::Communicator>& group,
                 std::shared_ptr<const TileRunner> runner)
      : context_(std::move(plan), ContextRanks(layout, group->rank()), group, std::move(runner)) {
    if (layout.division().heads > 1) exchange_.emplace(layout, group->rank(), group);
  }

  Result Forward(const AttentionCall& call, const QueryKeyValue& inputs) const override {
    const std::vector<RankHeads> split = Split(call);
    const RankHeads& own = Own(split);
    const at::Tensor packed = exchange_ ? exchange_->ToHeads(inputs, split) : at::Tensor();
    const QueryKeyValue rows = exchange_ ? Unpacked(packed, own, call.dims) : inputs;
    const PartialAttention whole = context_.Forward(Heads(own, call), rows);
    if (call.sink_H.defined()) AddSink(OwnHeads(call.sink_H, own), whole);
    const at::Tensor at_hand = whole.out_MHD.to(inputs.q_THD.scalar_type());
    if (!exchange_) return {at_hand, Saved(inputs, whole), {whole.out_MHD.detach(), whole.lse_MH}};
    const at::Tensor out = exchange_->ToTokens(at_hand, split);
    return {
        out, {packed, whole.out_MHD, whole.lse_MH}, {whole.out_MHD, whole.lse_MH, out.detach()}};
  }

  Result Resume(const AttentionCall& call, const QueryKeyValue& inputs,
                const std::vector<at::Tensor>& kept) const override {
    if (!exchange_)
      return {
          kept[0].detach().to(inputs.q_THD.scalar_type()), Saved(inputs, {kept[0], kept[1]}), {}};
    return {kept[2].detach(), {exchange_->ToHeads(inputs, Split(call)), kept[0], kept[1]}, {}};
  }

  AttentionGradients Backward(const AttentionCall& call, const at::Tensor& dout_THD,
                              const std::vector<at::Tensor>& saved) const override {
    const std::vector<RankHeads> split = Split(call);
    const RankHeads& own = Own(split);
    const RunHeads heads = Heads(own, call);
    if (!exchange_) {
      const QueryKeyValue freed{Freed(saved[0]), Freed(saved[1]), Freed(saved[2])};
      const QueryKeyValue rows{saved[0], saved[1], saved[2]};
      const at::ScalarType type = rows.q_THD.scalar_type(), sum_type = AccumulateType(type);
      const QueryResults results{dout_THD, saved[3], saved[4]};
      const at::Tensor sink_H = OfSink(call, own, results);
      if (context_.IsOneCall(heads, rows))
        return {To(type, context_.BackwardAtOnce(heads, rows, results, freed)), sink_H};
      const QueryKeyValue sums{Zeros(rows.q_THD, sum_type), Zeros(rows.k_SKD, sum_type),
                               Zeros(rows.v_SKD, sum_type)};
      context_.Backward(heads, rows, results, sums);
      return {To(type, sums), sink_H};
    }
    const at::Tensor& packed = saved[0];
    const at::ScalarType type = packed.scalar_type();
    // If several ranks share a kv head, each has an incomplete sum of its gradient, which is sent
    // in AccumulateType. Complete sums are sent in the gradients' dtype.
    const at::ScalarType sum_type = AccumulateType(type),
                         travelling = SharesKvHeads(split) ? sum_type : type;
    at::Tensor sink_H, gradients;
    {
      const QueryResults results{exchange_->ToHeads(dout_THD, split), saved[1], saved[2]};
      sink_H = OfSink(call, own, results);
      gradients = PackedGradients(heads, {packed, own, call.dims}, results, travelling);
    }  // frees the results before the gradients are exchanged
    return {To(type, exchange_->PackedToTokens(gradients, split, call.dims)), sink_H};
  }

 private:
  // q, k and v of this rank's heads, packed in one buffer (Unpacked in head_exchange.h).
  struct Packed {
    const at::Tensor& rows_TE;
    const RankHeads& own;
    const HeadDims& dims;
    QueryKeyValue Of(const at::Tensor& buffer_TE) const { return Unpacked(buffer_TE, own, dims); }
  };

  // Gradients of this rank's heads, in the packed form. Inputs are freed as early as possible.
  at::Tensor PackedGradients(const RunHeads& heads, const Packed& packed,
                             const QueryResults& results, at::ScalarType travelling) const {
    const at::Tensor& rows_TE = packed.rows_TE;
    const QueryKeyValue rows = packed.Of(rows_TE);
    if (!context_.IsOneCall(heads, rows)) {
      const at::Tensor sums = Zeros(rows_TE, AccumulateType(rows_TE.scalar_type()));
      context_.Backward(heads, rows, results, packed.Of(sums));
      return sums.to(travelling);
    }
    QueryKeyValue whole = context_.BackwardAtOnce(heads, rows, results, {});
    const at::Tensor gradients = at::empty(rows_TE.sizes(), rows_TE.options().dtype(travelling));
    const QueryKeyValue into = packed.Of(gradients);
    for (at::Tensor QueryKeyValue::*part :
         {&QueryKeyValue::q_THD, &QueryKeyValue::k_SKD, &QueryKeyValue::v_SKD}) {
      (into.*part).copy_(whole.*part);
      (whole.*part).reset();
    }
    return gradients;
  }

  static at::Tensor OwnHeads(const at::Tensor& of_all_H, const RankHeads& own) {
    return of_all_H.narrow(0, own.queries.begin, own.queries.heads());
  }

  // The gradient of the attention sink (sink.h); nonzero only for this rank's heads.
  static at::Tensor OfSink(const AttentionCall& call, const RankHeads& own,
                           const QueryResults& results) {
    if (!call.sink_H.defined()) return {};
    const at::Tensor gradient_H =
        Zeros(call.sink_H, AccumulateType(results.dout_THD.scalar_type()));
    OwnHeads(gradient_H, own).copy_(SinkGradient(OwnHeads(call.sink_H, own), results));
    return gradient_H;
  }

  // The ranks with this rank's index on the heads axis, by context rank.
  static std::vector<int> ContextRanks(const comm::Layout& layout, int rank) {
    const comm::Division& division = layout.division();
    std::vector<int> ranks;
    for (int context = 0; context < division.contexts; ++context)
      ranks.push_back(division.Rank(context, division.HeadOf(rank)));
    return ranks;
  }

  static std::vector<at::Tensor> Saved(const QueryKeyValue& inputs, const PartialAttention& whole) {
    return {inputs.q_THD, inputs.k_SKD, inputs.v_SKD, whole.out_MHD, whole.lse_MH};
  }

  // The heads of each rank. Computed at each call, since layers with different numbers of heads may
  // share a plan.
  std::vector<RankHeads> Split(const AttentionCall& call) const {
    return SplitHeads(call.heads, call.kv_heads, exchange_ ? exchange_->ranks() : 1);
  }
  const RankHeads& Own(const std::vector<RankHeads>& split) const {
    return split[exchange_ ? exchange_->head_place() : 0];
  }
  static RunHeads Heads(const RankHeads& own, const AttentionCall& call) {
    return {GroupHeads(own, call.heads / call.kv_heads), call.score};
  }

  ContextAttention context_;
  std::optional<HeadExchange> exchange_;  // nullopt where the heads axis has one rank
};

// The plan of a micro-batch. It caches one operator for each combination of window, mask, device
// and tile grid that layers use.
class PlannedHybrid final : public PlannedAttention {
 public:
  PlannedHybrid(Strategy strategy, std::shared_ptr<const comm::Layout> layout, LayerMasks masks,
                std::shared_ptr<comm::Communicator> group, TileRunners runners)
      : strategy_(std::move(strategy)),
        layout_(std::move(layout)),
        masks_(std::move(masks)),
        group_(std::move(group)),
        runners_(std::move(runners)) {}

  at::Tensor Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& v_TKD,
                     const ScoreRule& rule, KeptAttention* kept) override {
    const QueryKeyValue inputs{q_THD, k_TKD, v_TKD};
    CheckAttentionInputs(inputs, rule.sink_H, layout_->local_tokens(group_->rank()));
    TORCH_CHECK(rule.softcap >= 0.0 && std::isfinite(rule.softcap), "attention: a softcap of ",
                rule.softcap, ", expected more than 0, or 0 for none");
    return ApplyAttention(OperatorFor(rule, inputs), inputs, {rule.scale, rule.softcap},
                          rule.sink_H, kept);
  }

 private:
  const c10::intrusive_ptr<AttentionOperator>& OperatorFor(const ScoreRule& rule,
                                                           const QueryKeyValue& inputs) {
    const at::Device device = inputs.q_THD.device();
    std::shared_ptr<const TileRunner>& runner = of_device_[device.type()];
    if (runner == nullptr) runner = runners_(device);
    const TileGrid grid = runner->GridFor(inputs.q_THD.scalar_type(),
                                          std::max(inputs.k_SKD.size(2), inputs.v_SKD.size(2)),
                                          {rule.scale, rule.softcap});
    const int64_t window = WindowOf(masks_, rule.layer, rule.window);
    const Mask* const mask = MaskOf(masks_, rule.layer);
    auto& found = operators_[std::tuple(window, mask, device.type(), grid)];
    if (found == nullptr) {
      const comm::Division& division = layout_->division();
      const KeyTransport& transport = *strategy_.transport;
      const int context = division.ContextOf(group_->rank());
      const TileOptions options{window, grid, mask};
      ContextPlan plan = division.heads == 1 && group_->HasCollectives(device)
                             ? transport.PlanWithCollectives(*layout_, context, options)
                             : transport.Plan(*layout_, context, options);
      found = c10::make_intrusive<HybridOperator>(*layout_, std::move(plan), group_, runner);
    }
    return found;
  }

  Strategy strategy_;
  std::shared_ptr<const comm::Layout> layout_;
  LayerMasks masks_;
  std::shared_ptr<comm::Communicator> group_;
  TileRunners runners_;
  absl::flat_hash_map<c10::DeviceType, std::shared_ptr<const TileRunner>> of_device_;
  absl::flat_hash_map<std::tuple<int64_t, const Mask*, c10::DeviceType, TileGrid>,
                      c10::intrusive_ptr<AttentionOperator>>
      operators_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PlannedAttention>> HybridAttention::Plan(
    std::shared_ptr<const comm::Layout> layout, LayerMasks masks) const {
  const comm::Division &wanted = strategy_.division, &came = layout->division();
  if (came != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), " attention on ", wanted.contexts, " contexts x ", wanted.heads,
                     " heads, ", comm::OwnershipName(wanted.ownership), ", got a layout of ",
                     came.contexts, " x ", came.heads, ", ", comm::OwnershipName(came.ownership)));
  }
  if (auto status = Validate(masks, layout->lengths()); !status.ok()) return status;
  return std::make_unique<PlannedHybrid>(strategy_, std::move(layout), std::move(masks), group_,
                                         runners_);
}

std::string HybridAttention::Describe(absl::Span<const int64_t> lengths) const {
  return DescribeStrategy(strategy_);
}

std::string DescribeStrategy(const Strategy& strategy) {
  const comm::Division& division = strategy.division;
  std::string text = strategy.name;
  if (division.contexts > 1 && division.heads > 1) {
    absl::StrAppend(
        &text, " of ", division.contexts, " contexts x ", division.heads, " heads, ",
        division.placement == comm::Placement::kHeadFirst ? "head first" : "context first");
  }
  const int window = strategy.transport->ranks_per_window(division.contexts);
  if (window < division.contexts) absl::StrAppend(&text, " in windows of ", window);
  return text;
}

}  // namespace moonring::attention
