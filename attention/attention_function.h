#ifndef MOONRING_ATTENTION_ATTENTION_FUNCTION_H_
#define MOONRING_ATTENTION_ATTENTION_FUNCTION_H_

// The one autograd Function of attention: what a planned strategy is, to autograd.
//
// Inputs and results are in the dtype of q; sums inside are in AccumulateType and rounded once.
// Backward of backward is not defined.

#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "attention/attention.h"
#include "attention/block_attention.h"
#include "attention/head_split.h"

namespace moonring::attention {

struct AttentionCall {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  HeadDims dims;
  ScoreFunction score;
  at::Tensor sink_H = {};  // detached; undefined: none
};

struct AttentionGradients {
  QueryKeyValue rows;
  at::Tensor sink_H;  // of this rank's rows and heads; undefined where there is no sink
};

class AttentionOperator : public torch::CustomClassHolder {
 public:
  struct Result {
    at::Tensor out_THD;
    std::vector<at::Tensor> saved;  // what Backward asks for
    std::vector<at::Tensor> kept;   // what Resume asks for
  };

  // `inputs` are the local rows, checked: q [T_local, H, D]; k [T_local, Hk, D]; v [T_local, Hk,
  // Dv]; one dtype.
  // Collective: all ranks of the group call each in the same order. Throw base::StatusError where a
  // peer fails.
  virtual Result Forward(const AttentionCall& call, const QueryKeyValue& inputs) const = 0;
  // The result of a Forward on the same inputs, from what that kept.
  virtual Result Resume(const AttentionCall& call, const QueryKeyValue& inputs,
                        const std::vector<at::Tensor>& kept) const = 0;
  // May write over what is saved and unshared (base/memory/unshared.h).
  virtual AttentionGradients Backward(const AttentionCall& call, const at::Tensor& dout_THD,
                                      const std::vector<at::Tensor>& saved) const = 0;
};

// `kept` may be null, `sink_H` undefined. Autograd's graph shares the operator. Throws where
// shapes, dtypes or devices do not fit.
at::Tensor ApplyAttention(const c10::intrusive_ptr<AttentionOperator>& attention_operator,
                          const QueryKeyValue& inputs, const ScoreFunction& score,
                          const at::Tensor& sink_H, KeptAttention* kept);

// Throws where these are not local rows of `local_tokens` tokens, or the sink is not of their
// heads.
void CheckAttentionInputs(const QueryKeyValue& inputs, const at::Tensor& sink_H,
                          int64_t local_tokens);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_ATTENTION_FUNCTION_H_
