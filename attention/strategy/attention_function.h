#ifndef MOONRING_ATTENTION_STRATEGY_ATTENTION_FUNCTION_H_
#define MOONRING_ATTENTION_STRATEGY_ATTENTION_FUNCTION_H_

// The autograd function of attention, one for all strategies. A strategy's plan implements the
// interface AttentionOperator, which this function calls.
//
// Inputs and results are in the dtype of q; sums inside are in AccumulateType and are rounded once.
// Double backward is not supported.

#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "attention/attention.h"
#include "attention/kernels/block_attention.h"
#include "attention/kernels/head_split.h"

namespace moonring::attention {

struct AttentionCall {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  HeadDims dims;
  ScoreFunction score;
  at::Tensor sink_H = {};  // detached; undefined: no sink
};

struct AttentionGradients {
  QueryKeyValue rows;
  at::Tensor sink_H;  // the sum over this rank's rows and heads only; undefined without a sink
};

class AttentionOperator : public torch::CustomClassHolder {
 public:
  struct Result {
    at::Tensor out_THD;
    std::vector<at::Tensor> saved;  // tensors for Backward
    std::vector<at::Tensor> kept;   // tensors for Resume
  };

  // Computes attention. `inputs` are this rank's rows, already checked: q [T_local, H, D]; k
  // [T_local, Hk, D]; v [T_local, Hk, Dv]; one dtype. Collective: all ranks of the group make these
  // calls in the same order. They throw base::StatusError where a peer fails.
  virtual Result Forward(const AttentionCall& call, const QueryKeyValue& inputs) const = 0;
  // Returns the result of an earlier Forward on the same inputs, from the tensors `kept` by it.
  virtual Result Resume(const AttentionCall& call, const QueryKeyValue& inputs,
                        const std::vector<at::Tensor>& kept) const = 0;
  // Computes the gradients. May overwrite tensors of `saved` whose memory no other tensor shares
  // (base/memory/unshared.h).
  virtual AttentionGradients Backward(const AttentionCall& call, const at::Tensor& dout_THD,
                                      const std::vector<at::Tensor>& saved) const = 0;
};

// Runs the operator as a node of autograd's graph, which shares ownership of the operator. `kept`
// may be null, `sink_H` may be undefined. Throws where shapes, dtypes or devices do not match.
at::Tensor ApplyAttention(const c10::intrusive_ptr<AttentionOperator>& attention_operator,
                          const QueryKeyValue& inputs, const ScoreFunction& score,
                          const at::Tensor& sink_H, KeptAttention* kept);

// Throws where the inputs are not valid local rows of `local_tokens` tokens, or the sink does not
// match their heads.
void CheckAttentionInputs(const QueryKeyValue& inputs, const at::Tensor& sink_H,
                          int64_t local_tokens);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGY_ATTENTION_FUNCTION_H_
