#ifndef MOONRING_ATTENTION_ATTENTION_H_
#define MOONRING_ATTENTION_ATTENTION_H_

// Causal attention inside each document of a packed stream, by a strategy on a group of ranks.
//
//   out_t = sum_s softmax_s(score(q_t . k_s)) v_s   over the tokens s <= t of t's document, and
//                                                   s > t - window where there is a window; or over
//                                                   the tokens that a mask allows (mask.h)
//   score(x) = scale x, or softcap tanh(scale x / softcap) where there is a softcap
//
// The softmax may also have an attention sink (sink.h).
//
// `Attention` is the strategy. Its method Divide returns how a micro-batch must be divided over the
// ranks. Its method Plan prepares attention for a layout (which rank has which tokens) with that
// division. All layers share one plan. Calls are collective: every rank of the group, even one
// without tokens, makes the same calls in the same order.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "attention/kernels/mask.h"
#include "comm/layout.h"

namespace moonring::attention {

// How a layer's scores are computed.
struct ScoreRule {
  double scale = 1.0;
  int64_t window = 0;    // tokens that a query attends to, itself included, as `sliding_window`
                         // counts; 0: all tokens before it
  double softcap = 0.0;  // the bound of the scores, as `attn_logit_softcapping`; 0: none
  int64_t layer = 0;     // the layer's index, by which its mask is chosen
  at::Tensor sink_H;     // [H]: the score of one extra key per head, whose value is zero (sink.h),
                         // as `sinks`. Differentiable: each rank computes the gradient's share of
                         // its own rows and heads. Undefined: no sink
};

// Results of attention's forward, kept for activation recompute: when the layer's forward runs
// again on the same inputs, it reads these results. It then neither recomputes attention nor
// repeats the communication along the context axis (selective recompute of DISTFLASHATTN,
// arXiv:2310.03294, and "++" of LoongTrain). One object belongs to one call of one layer: the first
// forward fills it, later forwards read it. Memory for T tokens and H query heads, with values of
// Dv channels: T H (4 Dv + 4) bytes, and T H Dv e more where heads were exchanged (e: bytes of an
// element).
class KeptAttention {
 public:
  bool empty() const { return tensors_.empty(); }
  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  void Keep(std::vector<at::Tensor> tensors) { tensors_ = std::move(tensors); }

 private:
  std::vector<at::Tensor> tensors_;
};

class PlannedAttention {
 public:
  virtual ~PlannedAttention() = default;

  // q_THD [T_local, H, D]; k_TKD [T_local, Hk, D], rotary embedding already applied; v_TKD
  // [T_local, Hk, Dv], where Dv = D in most models and differs in multi-head latent attention;
  // fp32, bf16, fp16 or fp64. Returns [T_local, H, Dv] in q's dtype, differentiable. Autograd's
  // graph keeps alive what it needs, so the plan may be destroyed before the backward. `kept` may
  // be null. Throws on invalid inputs, and where a peer fails.
  virtual at::Tensor Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD,
                             const at::Tensor& v_TKD, const ScoreRule& rule,
                             KeptAttention* kept) = 0;
};

class Attention {
 public:
  virtual ~Attention() = default;

  virtual absl::string_view name() const = 0;

  // How a stream of documents of these lengths must be divided over the ranks.
  virtual comm::Division Divide(absl::Span<const int64_t> lengths) const = 0;

  // Prepares attention for a layout. INVALID_ARGUMENT where the layout's division differs from the
  // one that Divide returns, or the masks are for documents of other lengths. Every strategy
  // supports every mask.
  virtual absl::StatusOr<std::unique_ptr<PlannedAttention>> Plan(
      std::shared_ptr<const comm::Layout> layout, LayerMasks masks = {}) const = 0;

  // The strategy that runs for a stream of documents: this one, except for "auto", which returns
  // the strategy that it chose.
  virtual const Attention& For(absl::Span<const int64_t> lengths) const { return *this; }

  // Describes the strategy that runs for a stream of documents; "auto" adds its choice and the
  // reason.
  virtual std::string Describe(absl::Span<const int64_t> lengths) const = 0;

  // The name (by DescribeStrategy) of the strategy that was chosen for these documents; nullopt for
  // a strategy that does not choose between several.
  virtual std::optional<std::string> Chosen(absl::Span<const int64_t> lengths) const {
    return std::nullopt;
  }
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_ATTENTION_H_
