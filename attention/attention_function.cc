#include "attention/attention_function.h"

#include <utility>

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>

namespace moonring::attention {
namespace {

using OperatorPtr = c10::intrusive_ptr<AttentionOperator>;

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& v_TKD,
                            const OperatorPtr& attention_operator, double scale) {
    const AttentionCall call{q_THD.size(1), k_TKD.size(1), scale};
    AttentionOperator::Result result = attention_operator->Forward(call, {q_THD, k_TKD, v_TKD});
    context->save_for_backward(std::move(result.saved));
    context->saved_data["operator"] = c10::IValue::make_capsule(attention_operator);
    context->saved_data["heads"] = call.heads;
    context->saved_data["kv_heads"] = call.kv_heads;
    context->saved_data["scale"] = call.scale;
    return result.out_THD;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list douts) {
    auto& data = context->saved_data;
    const auto attention_operator = c10::static_intrusive_pointer_cast<AttentionOperator>(data["operator"].toCapsule());
    const AttentionCall call{data["heads"].toInt(), data["kv_heads"].toInt(), data["scale"].toDouble()};
    QueryKeyValue gradients = attention_operator->Backward(call, douts[0], context->get_saved_variables());
    return {std::move(gradients.q_THD), std::move(gradients.k_SKD), std::move(gradients.v_SKD), at::Tensor(), at::Tensor()};
  }
};

void CheckInputs(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t local_tokens) {
  TORCH_CHECK(q.dim() == 3 && k.dim() == 3, "attention: want q [T, H, D] and k, v [T, Hk, D], got q ", q.sizes(), ", k ", k.sizes());
  TORCH_CHECK(k.sizes() == v.sizes(), "attention: k ", k.sizes(), " and v ", v.sizes(), " differ");
  TORCH_CHECK(q.size(0) == local_tokens && k.size(0) == local_tokens, "attention: the layout gives this rank ", local_tokens, " tokens, got q ", q.sizes(),
              ", k ", k.sizes());
  TORCH_CHECK(q.size(2) == k.size(2), "attention: head dim of q is ", q.size(2), ", of k ", k.size(2));
  TORCH_CHECK(k.size(1) > 0 && q.size(1) > 0 && q.size(1) % k.size(1) == 0, "attention: ", q.size(1), " query heads are no multiple of ", k.size(1),
              " kv heads");
  const at::ScalarType type = q.scalar_type();
  TORCH_CHECK(type == k.scalar_type() && type == v.scalar_type(), "attention: dtypes differ: q ", type, ", k ", k.scalar_type(), ", v ", v.scalar_type());
  TORCH_CHECK(type == at::kFloat || type == at::kBFloat16 || type == at::kDouble, "attention: want fp32, bf16 or fp64, got ", type);
  TORCH_CHECK(q.device() == k.device() && q.device() == v.device(), "attention: q is on ", q.device(), ", k on ", k.device(), ", v on ", v.device());
}

class PlannedOperator final : public PlannedAttention {
 public:
  PlannedOperator(OperatorPtr attention_operator, int64_t local_tokens) : operator_(std::move(attention_operator)), local_tokens_(local_tokens) {}

  at::Tensor Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& v_TKD, double scale) override {
    CheckInputs(q_THD, k_TKD, v_TKD, local_tokens_);
    return AttentionFunction::apply(q_THD, k_TKD, v_TKD, operator_, scale);
  }

 private:
  OperatorPtr operator_;
  int64_t local_tokens_;
};

}  // namespace

std::unique_ptr<PlannedAttention> MakePlannedAttention(c10::intrusive_ptr<AttentionOperator> attention_operator, int64_t local_tokens) {
  return std::make_unique<PlannedOperator>(std::move(attention_operator), local_tokens);
}

}  // namespace moonring::attention
