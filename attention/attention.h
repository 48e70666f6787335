#ifndef MOONRING_ATTENTION_ATTENTION_H_
#define MOONRING_ATTENTION_ATTENTION_H_

// Causal attention inside each document of a packed stream, by a strategy on a group of ranks.
//
//   out_t = sum_s softmax_s(scale q_t . k_s) v_s   over the tokens s <= t of t's document
//
// `Attention` is the strategy; `Plan` fits it to the layout of one micro-batch; all layers share the plan. Calls are
// collective: every rank of the group makes the same ones in the same order, a rank without tokens too.

#include <memory>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::comm {
class Layout;
enum class Ownership;
}  // namespace moonring::comm

namespace moonring::attention {

class PlannedAttention {
 public:
  virtual ~PlannedAttention() = default;

  // q_THD [T_local, H, D]; k_TKD, v_TKD [T_local, Hk, D], rotary embedding applied; fp32, bf16 or fp64. Returns
  // [T_local, H, D] in q's dtype, differentiable; autograd's graph shares what it needs, so
  // the plan need not live until the backward. Throws.
  virtual at::Tensor Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& v_TKD, double scale) = 0;
};

class Attention {
 public:
  virtual ~Attention() = default;

  virtual absl::string_view name() const = 0;

  // The layout it works on.
  virtual comm::Ownership ownership() const = 0;

  virtual absl::StatusOr<std::unique_ptr<PlannedAttention>> Plan(std::shared_ptr<const comm::Layout> layout) = 0;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_ATTENTION_H_
