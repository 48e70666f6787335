#include "model/next_logits.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "absl/strings/str_cat.h"
#include "kernels/products/products.h"
#include "model/adapter.h"
#include "model/blocks/layers.h"

namespace moonring::model {

absl::Status CheckPrompt(const Transformer& model, absl::Span<const int64_t> ids) {
  const auto count = static_cast<int64_t>(ids.size());
  const int64_t limit = model.config().max_position_embeddings,
                vocabulary = model.config().vocab_size;
  if (count == 0) return absl::InvalidArgumentError("no tokens to continue");
  if (count > limit)
    return absl::InvalidArgumentError(
        absl::StrCat(count, " tokens, the model has positions for ", limit));
  for (const int64_t id : ids) {
    if (id < 0 || id >= vocabulary)
      return absl::InvalidArgumentError(
          absl::StrCat("token id ", id, ", the vocabulary has ", vocabulary));
  }
  return absl::OkStatus();
}

at::Tensor NextLogits(const Transformer& model, const at::Tensor& hidden_BD) {
  const ModelConfig& config = model.config();
  const at::ScalarType dtype = model.options().matmul_dtype;
  const at::Tensor head_VD = model.head()->Lease(dtype);
  const Adapter::MapWeights* const map = model.head_map();
  at::Tensor a_RD, b_VR;
  if (map != nullptr) {
    a_RD = map->a->Lease(dtype);
    b_VR = map->b->Lease(dtype);
  }
  if (hidden_BD.size(0) == 0)
    return at::empty({0, head_VD.size(0)}, hidden_BD.options().dtype(WideDtype(dtype)));
  const at::Tensor rows_BD = hidden_BD.to(dtype);
  at::Tensor logits_BV = Linear(rows_BD, head_VD, at::Tensor());
  if (map != nullptr)
    kernels::AddProduct(logits_BV, kernels::Product(rows_BD, a_RD.t()), b_VR.t(), 1.0, map->scale);
  logits_BV = logits_BV.to(WideDtype(dtype));
  if (config.logit_scale != 1.0) logits_BV = logits_BV * config.logit_scale;
  const double cap = config.logit_softcap;
  if (cap > 0) logits_BV = (logits_BV / cap).tanh_().mul_(cap);
  return logits_BV;
}

}  // namespace moonring::model
