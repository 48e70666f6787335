#include "attention/dense_attention.h"

#include <ATen/ops/zeros.h>

#include "absl/strings/str_cat.h"
#include "attention/attention_function.h"
#include "attention/head_split.h"
#include "attention/softmax_merge.h"
#include "attention/tile_plan.h"
#include "attention/tile_runner.h"
#include "comm/layout.h"

namespace moonring::attention {
namespace {

class DenseOperator final : public AttentionOperator {
 public:
  DenseOperator(std::shared_ptr<const BlockAttention> block, TilePlan plan) : block_(std::move(block)), plan_(std::move(plan)) {}

  Result Forward(const AttentionCall& call, const QueryKeyValue& inputs) const override {
    const QueryKeyValue rows = ToAccumulateType(inputs);
    const SoftmaxState state = SoftmaxState::Empty(rows.q_THD.size(0), rows.q_THD.size(1), rows.q_THD.size(2), rows.q_THD.options());
    Runner(call).Forward(plan_, rows, state);
    const PartialAttention whole = Finish(state);
    const at::Tensor out = whole.out_MHD.to(inputs.q_THD.scalar_type());
    return {out, {inputs.q_THD, inputs.k_SKD, inputs.v_SKD, whole.out_MHD, whole.lse_MH}};
  }

  QueryKeyValue Backward(const AttentionCall& call, const at::Tensor& dout_THD, const std::vector<at::Tensor>& saved) const override {
    const QueryKeyValue inputs{saved[0], saved[1], saved[2]}, rows = ToAccumulateType(inputs);
    const QueryKeyValue gradients{at::zeros(rows.q_THD.sizes(), rows.q_THD.options()), at::zeros(rows.k_SKD.sizes(), rows.k_SKD.options()),
                                  at::zeros(rows.v_SKD.sizes(), rows.v_SKD.options())};
    Runner(call).Backward(plan_, rows, {dout_THD.to(rows.q_THD.scalar_type()), saved[3], saved[4]}, gradients);
    const at::ScalarType type = inputs.q_THD.scalar_type();
    return {gradients.q_THD.to(type), gradients.k_SKD.to(type), gradients.v_SKD.to(type)};
  }

 private:
  TileRunner Runner(const AttentionCall& call) const {
    return {*block_, GroupHeads({{0, call.heads}, {0, call.kv_heads}}, call.heads / call.kv_heads), call.scale};
  }

  std::shared_ptr<const BlockAttention> block_;
  TilePlan plan_;
};

}  // namespace

comm::Ownership DenseAttention::ownership() const { return comm::Ownership::kContiguous; }

absl::StatusOr<std::unique_ptr<PlannedAttention>> DenseAttention::Plan(std::shared_ptr<const comm::Layout> layout) {
  if (layout->ranks() != 1) return absl::InvalidArgumentError(absl::StrCat("dense attention works on one rank, the layout has ", layout->ranks()));
  return MakePlannedAttention(c10::make_intrusive<DenseOperator>(block_, PlanWholeDocuments(layout->lengths())), layout->tokens());
}

}  // namespace moonring::attention
