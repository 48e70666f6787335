#include "attention/strategy/attention_function.h"

#include <utility>

#include <c10/util/Exception.h>

#include "base/autograd/custom_function.h"
#include "base/memory/memory_account.h"
#include "base/trace/recorder.h"

namespace moonring::attention {
namespace {

constexpr base::SpanKind kAttentionForward = {
    .name = "attention forward", .category = "attention", .numbers = {"rows", "heads", "head_dim"}};
constexpr base::SpanKind kAttentionBackward = {.name = "attention backward",
                                               .category = "attention",
                                               .numbers = {"rows", "heads", "head_dim"}};

}  // namespace

at::Tensor ApplyAttention(const c10::intrusive_ptr<AttentionOperator>& attention_operator,
                          const QueryKeyValue& inputs, const ScoreFunction& score,
                          const at::Tensor& sink_H, KeptAttention* kept) {
  const AttentionCall call{inputs.q_THD.size(1),
                           inputs.k_SKD.size(1),
                           {inputs.k_SKD.size(2), inputs.v_SKD.size(2)},
                           score,
                           sink_H.defined() ? sink_H.detach() : at::Tensor()};
  return base::ApplyToOne(
      {.name = "attention",
       .forward = [&](base::Tensors* saved) -> base::Tensors {
         const base::MemoryScope memory(base::MemoryPart::kAttention);
         base::TraceSpan span(kAttentionForward,
                              {inputs.q_THD.size(0), call.heads, inputs.q_THD.size(2)});
         span.OnDevice(inputs.q_THD.device());
         const bool resumes = kept != nullptr && !kept->empty();
         AttentionOperator::Result result =
             resumes ? attention_operator->Resume(call, inputs, kept->tensors())
                     : attention_operator->Forward(call, inputs);
         for (const at::Tensor& tensor : result.kept)
           base::CountAs(base::MemoryPart::kAttention, tensor);
         if (kept != nullptr && !resumes) kept->Keep(std::move(result.kept));
         *saved = std::move(result.saved);
         return {result.out_THD};
       },
       .backward = [attention_operator, call](base::BackwardCall& backward) -> base::Tensors {
         const base::MemoryScope memory(base::MemoryPart::kAttention);
         const at::Tensor& dout_THD = backward.gradients[0];
         base::TraceSpan span(kAttentionBackward, {dout_THD.size(0), call.heads, dout_THD.size(2)});
         span.OnDevice(dout_THD.device());
         auto [rows, sink_gradient_H] =
             attention_operator->Backward(call, backward.gradients[0], backward.saved);
         if (sink_gradient_H.defined())
           sink_gradient_H = sink_gradient_H.to(call.sink_H.scalar_type());
         return {std::move(rows.q_THD), std::move(rows.k_SKD), std::move(rows.v_SKD),
                 std::move(sink_gradient_H)};
       }},
      {inputs.q_THD, inputs.k_SKD, inputs.v_SKD, sink_H});
}

void CheckAttentionInputs(const QueryKeyValue& inputs, const at::Tensor& sink_H,
                          int64_t local_tokens) {
  const at::Tensor &q = inputs.q_THD, &k = inputs.k_SKD, &v = inputs.v_SKD;
  TORCH_CHECK(q.dim() == 3 && k.dim() == 3 && v.dim() == 3,
              "attention: expected q [T, H, D], k [T, Hk, D] and v [T, Hk, Dv], got q ", q.sizes(),
              ", k ", k.sizes(), ", v ", v.sizes());
  TORCH_CHECK(k.sizes().slice(0, 2) == v.sizes().slice(0, 2), "attention: rows or heads of k ",
              k.sizes(), " and v ", v.sizes(), " differ");
  TORCH_CHECK(q.size(0) == local_tokens && k.size(0) == local_tokens,
              "attention: the layout gives this rank ", local_tokens, " tokens, got q ", q.sizes(),
              ", k ", k.sizes());
  TORCH_CHECK(q.size(2) == k.size(2), "attention: head dim of q is ", q.size(2), ", of k ",
              k.size(2));
  TORCH_CHECK(k.size(1) > 0 && q.size(1) > 0 && q.size(1) % k.size(1) == 0,
              "attention: ", q.size(1), " query heads are no multiple of ", k.size(1), " kv heads");
  const at::ScalarType type = q.scalar_type();
  TORCH_CHECK(type == k.scalar_type() && type == v.scalar_type(), "attention: dtypes differ: q ",
              type, ", k ", k.scalar_type(), ", v ", v.scalar_type());
  TORCH_CHECK(
      type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || type == at::kDouble,
      "attention: expected fp32, bf16, fp16 or fp64, got ", type);
  TORCH_CHECK(q.device() == k.device() && q.device() == v.device(), "attention: q is on ",
              q.device(), ", k on ", k.device(), ", v on ", v.device());
  if (!sink_H.defined()) return;
  TORCH_CHECK(sink_H.dim() == 1 && sink_H.size(0) == q.size(1) && sink_H.is_floating_point() &&
                  sink_H.device() == q.device(),
              "attention: expected a sink for each of ", q.size(1), " heads on ", q.device(),
              ", got ", sink_H.scalar_type(), " ", sink_H.sizes(), " on ", sink_H.device());
}

}  // namespace moonring::attention
