#ifndef MOONRING_MODEL_TRANSFORMER_H_
#define MOONRING_MODEL_TRANSFORMER_H_

// A decoder: embedding, blocks, final norm. It knows no rank: it is handed this rank's tokens, their positions and an attention.
//
//   hidden_TD = norm(block_{L-1}(.. block_0(embedding[ids])))
//
// The head is not applied here: `head()` is lent to whoever makes log-probs or logits of it. Weights are Parameters under their
// Hugging Face names; backward puts their gradients into those Parameters (see block_runner.h), never into an autograd graph.
//
//   weight_dtype  matmul_dtype
//   kFloat        kFloat         fp32
//   kFloat        kBFloat16      bf16: true       matrices and biases are cast as they are leased
//   kBFloat16     kBFloat16      pure_bf16: true
//   kDouble       kDouble        fp64, for tests
//
// The residual stream, norms and rotary embedding are in fp32 (fp64 for fp64) in all of them. A frozen model holds its matrices
// in the matmul dtype: the numbers that it computes with are those of a trainable model with the same weights.
//
// Memory that a live forward keeps for its backward, beside what the objective keeps: (L + 1) T D numbers of the stream under
// Recompute::kBlock; besides L times what attention keeps under kSelective; about L T (10 D + 3 I) under kNone. Backward of a
// block needs that block's share once more.

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "absl/status/statusor.h"
#include "attention/attention.h"
#include "comm/parameter.h"
#include "model/block_runner.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/transformer_block.h"

namespace moonring::model {

struct TransformerOptions {
  at::ScalarType weight_dtype = at::kFloat;
  at::ScalarType matmul_dtype = at::kFloat;
  Recompute recompute = Recompute::kBlock;
  bool frozen = false;
  c10::Device device = c10::Device(c10::kCPU);
};

class Transformer {
 public:
  // Reads every weight. Fails as Checkpoint::Load does.
  static absl::StatusOr<std::unique_ptr<Transformer>> Load(std::shared_ptr<Checkpoint> checkpoint, TransformerOptions options);

  // From weights at hand, in any order. INVALID_ARGUMENT where one is missing, misshapen, given twice or unknown. `frozen` makes
  // the parameters not trainable; their dtype and device are left as they are.
  static absl::StatusOr<std::unique_ptr<Transformer>> Create(ModelConfig config, comm::Parameters parameters, TransformerOptions options);

  // ids_T, positions_T int64 [T_local], T_local >= 0, on any device; positions serve the rotary embedding alone. Returns the
  // stream after the final norm [T_local, D], differentiable; autograd's graph shares `attention`. Throws what attention throws.
  at::Tensor Forward(const at::Tensor& ids_T, const at::Tensor& positions_T, std::shared_ptr<attention::PlannedAttention> attention);

  // lm_head.weight, or the embedding where they are tied: [V, D].
  std::shared_ptr<comm::Parameter> head() const { return head_; }

  // In the order of a forward pass; a tied weight once, under model.embed_tokens.weight.
  const comm::Parameters& parameters() const { return parameters_; }

  const ModelConfig& config() const { return config_; }
  const TransformerOptions& options() const { return options_; }

 private:
  Transformer(ModelConfig config, comm::Parameters parameters, TransformerOptions options);

  ModelConfig config_;
  TransformerOptions options_;
  comm::Parameters parameters_;
  std::shared_ptr<comm::Parameter> embedding_, norm_, head_;
  std::vector<std::vector<Loan>> blocks_;  // a block's weights at their BlockWeight places
  BlockShape shape_;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_TRANSFORMER_H_
