#include "attention/ring_attention.h"

#include <optional>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "attention/attention_function.h"
#include "attention/head_split.h"
#include "attention/softmax_merge.h"
#include "attention/tile_plan.h"
#include "attention/tile_runner.h"
#include "comm/torch_status.h"

namespace moonring::attention {
namespace {

// Keys and values, or their gradients, [rows, Hk, D].
struct KeyValue {
  at::Tensor k_SKD;
  at::Tensor v_SKD;
};

KeyValue EmptyKeyValue(int64_t rows, const at::Tensor& like_SKD, at::ScalarType type) {
  const at::TensorOptions options = like_SKD.options().dtype(type);
  return {at::empty({rows, like_SKD.size(1), like_SKD.size(2)}, options), at::empty({rows, like_SKD.size(1), like_SKD.size(2)}, options)};
}

// Some rows in one piece, as a transfer wants them: a view where that is so already.
at::Tensor Gather(const at::Tensor& rows_SKD, const std::vector<RowRange>& ranges) {
  if (ranges.size() == 1) return rows_SKD.narrow(0, ranges[0].begin, ranges[0].rows()).contiguous();
  std::vector<at::Tensor> pieces;
  for (const RowRange& range : ranges) pieces.push_back(rows_SKD.narrow(0, range.begin, range.rows()));
  return pieces.empty() ? rows_SKD.narrow(0, 0, 0).contiguous() : at::cat(pieces);
}

// The adjoint of Gather.
void ScatterAdd(const at::Tensor& gathered_SKD, const std::vector<RowRange>& ranges, const at::Tensor& rows_SKD) {
  int64_t row = 0;
  for (const RowRange& range : ranges) {
    rows_SKD.narrow(0, range.begin, range.rows()).add_(gathered_SKD.narrow(0, row, range.rows()));
    row += range.rows();
  }
}

// A transfer under way and what it fills.
struct Arrival {
  KeyValue rows;
  comm::Communicator::Transfer transfer;

  const KeyValue& Wait() {
    comm::ThrowIfError(transfer.Wait());
    return rows;
  }
};

class RingOperator final : public AttentionOperator {
 public:
  RingOperator(const comm::Layout& layout, std::shared_ptr<comm::Communicator> group, std::shared_ptr<const BlockAttention> block)
      : block_(std::move(block)), steps_(PlanRing(layout, group->rank())), group_(std::move(group)) {}

  Result Forward(const AttentionCall& call, const QueryKeyValue& inputs) const override {
    const QueryKeyValue own = ToAccumulateType(inputs);
    const at::Tensor& q = own.q_THD;
    const SoftmaxState state = SoftmaxState::Empty(q.size(0), q.size(1), q.size(2), q.options());
    const TileRunner runner = Runner(call);
    const KeyValue keys{inputs.k_SKD, inputs.v_SKD};
    for (std::optional<Arrival> next; const RingStep& step : steps_) {
      QueryKeyValue rows = own;
      const bool is_own = &step == &steps_.front();
      const KeyValue arrived = is_own ? keys : next->Wait();
      next = SendKeysOfNext(step, keys);
      if (!is_own) rows = ToAccumulateType({q, arrived.k_SKD, arrived.v_SKD});
      runner.Forward(step.tiles, rows, state);
    }
    const PartialAttention whole = Finish(state);
    return {whole.out_MHD.to(inputs.q_THD.scalar_type()), {inputs.q_THD, inputs.k_SKD, inputs.v_SKD, whole.out_MHD, whole.lse_MH}};
  }

  QueryKeyValue Backward(const AttentionCall& call, const at::Tensor& dout_THD, const std::vector<at::Tensor>& saved) const override {
    const QueryKeyValue inputs{saved[0], saved[1], saved[2]}, own = ToAccumulateType(inputs);
    const at::ScalarType sum_type = own.q_THD.scalar_type();
    const QueryResults results{dout_THD.to(sum_type), saved[3], saved[4]};
    const QueryKeyValue sums{Zeros(own.q_THD), Zeros(own.k_SKD), Zeros(own.v_SKD)};
    const TileRunner runner = Runner(call);
    const KeyValue keys{inputs.k_SKD, inputs.v_SKD};
    std::optional<Arrival> next, home;  // the keys of the next step; gradients of own rows from the last one
    for (const RingStep& step : steps_) {
      if (&step == &steps_.front()) {
        next = SendKeysOfNext(step, keys);
        runner.Backward(step.tiles, own, results, sums);
        continue;
      }
      const KeyValue arrived = next->Wait();
      next = SendKeysOfNext(step, keys);
      const QueryKeyValue rows = ToAccumulateType({own.q_THD, arrived.k_SKD, arrived.v_SKD});
      const KeyValue gradients{Zeros(rows.k_SKD), Zeros(rows.v_SKD)};
      runner.Backward(step.tiles, rows, results, {sums.q_THD, gradients.k_SKD, gradients.v_SKD});
      if (home) AddHome(*home, (&step)[-1], sums);
      home = SendHome(step, gradients);
    }
    if (home) AddHome(*home, steps_.back(), sums);
    const at::ScalarType type = inputs.q_THD.scalar_type();
    return {sums.q_THD.to(type), sums.k_SKD.to(type), sums.v_SKD.to(type)};
  }

 private:
  static at::Tensor Zeros(const at::Tensor& rows) { return at::zeros(rows.sizes(), rows.options()); }

  TileRunner Runner(const AttentionCall& call) const {
    return {*block_, GroupHeads({{0, call.heads}, {0, call.kv_heads}}, call.heads / call.kv_heads), call.scale};
  }

  // Starts the transfer of keys that the step after `step` works on; nothing after the last.
  std::optional<Arrival> SendKeysOfNext(const RingStep& step, const KeyValue& keys) const {
    if (&step == &steps_.back()) return std::nullopt;
    const RingStep& next = (&step)[1];
    return Start(next.to, {Gather(keys.k_SKD, next.send), Gather(keys.v_SKD, next.send)}, next.from,
                 EmptyKeyValue(next.receive_rows, keys.k_SKD, keys.k_SKD.scalar_type()));
  }

  // Starts the way home of the gradients of the rows that `step` worked on, against those of own rows from where they were.
  std::optional<Arrival> SendHome(const RingStep& step, const KeyValue& gradients) const {
    return Start(step.from, gradients, step.to, EmptyKeyValue(step.send_rows, gradients.k_SKD, gradients.k_SKD.scalar_type()));
  }

  Arrival Start(int to, const KeyValue& send, int from, KeyValue receive) const {
    auto transfer = group_->SendReceive({send.k_SKD, send.v_SKD}, to, {receive.k_SKD, receive.v_SKD}, from);
    return {std::move(receive), comm::ValueOrThrow(std::move(transfer))};
  }

  static void AddHome(Arrival& home, const RingStep& step, const QueryKeyValue& sums) {
    const KeyValue& rows = home.Wait();
    ScatterAdd(rows.k_SKD, step.send, sums.k_SKD);
    ScatterAdd(rows.v_SKD, step.send, sums.v_SKD);
  }

  std::shared_ptr<const BlockAttention> block_;
  std::vector<RingStep> steps_;
  std::shared_ptr<comm::Communicator> group_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PlannedAttention>> RingAttention::Plan(std::shared_ptr<const comm::Layout> layout) {
  if (layout->ranks() != group_->size()) {
    return absl::InvalidArgumentError(absl::StrCat(name(), " attention on ", group_->size(), " ranks got a layout of ", layout->ranks()));
  }
  return MakePlannedAttention(c10::make_intrusive<RingOperator>(*layout, group_, block_), layout->local_tokens(group_->rank()));
}

AttentionCost RingCost(const comm::Layout& layout, const AttentionShape& shape) {
  AttentionCost cost(layout.ranks());
  const int64_t row_elements = 2 * shape.kv_heads * shape.head_dim;  // a key and a value
  for (int r = 0; r < layout.ranks(); ++r) {
    const std::vector<RingStep> steps = PlanRing(layout, r);
    RankCost& rank = cost[r];
    rank.forward_steps = static_cast<int64_t>(steps.size()) - 1;
    rank.backward_steps = 2 * rank.forward_steps;
    for (const RingStep& step : steps) {
      rank.tile_area += step.tiles.area() * static_cast<double>(shape.heads);
      rank.forward_bytes += step.send_rows * row_elements * shape.element_bytes;
      rank.backward_bytes += row_elements * (step.send_rows * shape.element_bytes + step.receive_rows * shape.accumulate_bytes);
    }
  }
  return cost;
}

}  // namespace moonring::attention
