#include "attention/attention_function.h"

#include <utility>

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>

#include "comm/memory_account.h"

namespace moonring::attention {
namespace {

using OperatorPtr = c10::intrusive_ptr<AttentionOperator>;

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& v_TKD,
                            const OperatorPtr& attention_operator, const ScoreFunction& score, KeptAttention* kept) {
    const comm::MemoryScope memory(comm::MemoryPart::kAttention);
    const AttentionCall call{q_THD.size(1), k_TKD.size(1), score};
    const QueryKeyValue inputs{q_THD, k_TKD, v_TKD};
    const bool resumes = kept != nullptr && !kept->empty();
    AttentionOperator::Result result = resumes ? attention_operator->Resume(call, inputs, kept->tensors()) : attention_operator->Forward(call, inputs);
    for (const at::Tensor& tensor : result.kept) comm::CountAs(comm::MemoryPart::kAttention, tensor);
    if (kept != nullptr && !resumes) kept->Keep(std::move(result.kept));
    context->save_for_backward(std::move(result.saved));
    context->saved_data["operator"] = c10::IValue::make_capsule(attention_operator);
    context->saved_data["heads"] = call.heads;
    context->saved_data["kv_heads"] = call.kv_heads;
    context->saved_data["scale"] = call.score.scale;
    context->saved_data["softcap"] = call.score.softcap;
    return result.out_THD;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list douts) {
    const comm::MemoryScope memory(comm::MemoryPart::kAttention);
    auto& data = context->saved_data;
    const auto attention_operator = c10::static_intrusive_pointer_cast<AttentionOperator>(data["operator"].toCapsule());
    const AttentionCall call{data["heads"].toInt(), data["kv_heads"].toInt(), {data["scale"].toDouble(), data["softcap"].toDouble()}};
    QueryKeyValue gradients = attention_operator->Backward(call, douts[0], context->get_saved_variables());
    return {std::move(gradients.q_THD), std::move(gradients.k_SKD), std::move(gradients.v_SKD), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor ApplyAttention(const OperatorPtr& attention_operator, const QueryKeyValue& inputs, const ScoreFunction& score, KeptAttention* kept) {
  return AttentionFunction::apply(inputs.q_THD, inputs.k_SKD, inputs.v_SKD, attention_operator, score, kept);
}

void CheckAttentionInputs(const QueryKeyValue& inputs, int64_t local_tokens) {
  const at::Tensor &q = inputs.q_THD, &k = inputs.k_SKD, &v = inputs.v_SKD;
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

}  // namespace moonring::attention
