#include "mixers/rule/delta_inputs.h"

#include <numeric>

#include <c10/util/Exception.h>

namespace moonring::mixers {

at::ScalarType StateDtype(const DeltaInputs& inputs) {
  return inputs.v_THV.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

void CheckDeltaInputs(const DeltaInputs& inputs, const std::vector<int64_t>& lengths) {
  const at::Tensor &q = inputs.q_THK, &k = inputs.k_THK, &v = inputs.v_THV, &g = inputs.g;
  TORCH_CHECK(q.dim() == 3 && q.sizes() == k.sizes() && v.dim() == 3 && v.size(0) == q.size(0),
              "delta rule: expected q, k [T, Hk, d_k] and v [T, H, d_v], got q ", q.sizes(), ", k ",
              k.sizes(), ", v ", v.sizes());
  TORCH_CHECK(q.size(1) > 0 && v.size(1) > 0 && v.size(1) % q.size(1) == 0,
              "delta rule: ", v.size(1), " value heads are no multiple of ", q.size(1),
              " key heads");
  const int64_t tokens = v.size(0), heads = v.size(1), width = q.size(2);
  TORCH_CHECK(g.sizes() == at::IntArrayRef({tokens, heads}) ||
                  g.sizes() == at::IntArrayRef({tokens, heads, width}),
              "delta rule: expected g [T, H] or [T, H, d_k] for v ", v.sizes(), " and k ",
              k.sizes(), ", got ", g.sizes());
  TORCH_CHECK(inputs.beta_TH.sizes() == at::IntArrayRef({tokens, heads}),
              "delta rule: expected beta [T, H] for v ", v.sizes(), ", got ",
              inputs.beta_TH.sizes());
  int64_t sum = 0;
  for (const int64_t length : lengths) {
    TORCH_CHECK(length >= 0, "delta rule: a document of ", length, " tokens");
    sum += length;
  }
  TORCH_CHECK(sum == tokens, "delta rule: documents of ", sum, " tokens, but v is ", v.sizes());
  for (const at::Tensor* x : {&q, &k, &v, &g, &inputs.beta_TH})
    TORCH_CHECK(x->is_floating_point() && x->device() == v.device(),
                "delta rule: expected floating point on ", v.device(), ", got ", x->scalar_type(),
                " on ", x->device());
  const at::Tensor& initial = inputs.initial_DHVK;
  if (!initial.defined()) return;
  const int64_t documents = lengths.size();
  TORCH_CHECK(initial.sizes() == at::IntArrayRef({documents, heads, v.size(2), width}),
              "delta rule: expected a first state of [", documents, ", ", heads, ", ", v.size(2),
              ", ", width, "], got ", initial.sizes());
  TORCH_CHECK(initial.scalar_type() == StateDtype(inputs) && initial.device() == v.device(),
              "delta rule: expected the first state in ", StateDtype(inputs), " on ", v.device(),
              ", got ", initial.scalar_type(), " on ", initial.device());
}

}  // namespace moonring::mixers
