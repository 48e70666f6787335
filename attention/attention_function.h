#ifndef MOONRING_ATTENTION_ATTENTION_FUNCTION_H_
#define MOONRING_ATTENTION_ATTENTION_FUNCTION_H_

// The one autograd Function of attention: what a strategy is, to autograd.
//
// A strategy writes an AttentionOperator: a forward and its adjoint on local rows. Inputs and results are in the dtype of
// q; sums inside are in AccumulateType and rounded once. Backward of backward is not defined.

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "attention/attention.h"
#include "attention/block_attention.h"

namespace moonring::attention {

struct AttentionCall {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  double scale = 1.0;
};

class AttentionOperator : public torch::CustomClassHolder {
 public:
  struct Result {
    at::Tensor out_THD;
    std::vector<at::Tensor> saved;  // what Backward asks for
  };

  // `inputs` are the local rows, checked: q [T_local, H, D]; k, v [T_local, Hk, D]; one dtype.
  // Collective: all ranks of the group call each in the same order. Throw comm::StatusError where a peer fails.
  virtual Result Forward(const AttentionCall& call, const QueryKeyValue& inputs) const = 0;
  virtual QueryKeyValue Backward(const AttentionCall& call, const at::Tensor& dout_THD, const std::vector<at::Tensor>& saved) const = 0;
};

// A plan that applies `attention_operator` to `local_tokens` rows. Autograd's graph shares the operator: the plan need not
// outlive the forward.
std::unique_ptr<PlannedAttention> MakePlannedAttention(c10::intrusive_ptr<AttentionOperator> attention_operator, int64_t local_tokens);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_ATTENTION_FUNCTION_H_
