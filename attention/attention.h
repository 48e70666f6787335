#ifndef MOONRING_ATTENTION_ATTENTION_H_
#define MOONRING_ATTENTION_ATTENTION_H_

// Causal attention inside each document of a packed stream, by a strategy on a group of ranks.
//
//   out_t = sum_s softmax_s(score(q_t . k_s)) v_s   over the tokens s <= t of t's document, and s >
//                                                   t - window where there is one; or over those
//                                                   that a mask shows (mask.h)
//   score(x) = scale x, or softcap tanh(scale x / softcap) where there is a softcap
//
// The softmax may have a sink besides (sink.h).
//
// `Attention` is the strategy; it says how a micro-batch is to be divided over the ranks, and
// `Plan` fits it to a layout made so. All layers share the plan. Calls are collective: every rank
// of the group makes the same ones in the same order, a rank without tokens too.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "attention/mask.h"
#include "comm/layout.h"

namespace moonring::attention {

// What a layer's scores are.
struct ScoreRule {
  double scale = 1.0;
  int64_t window = 0;    // tokens that a query sees, itself among them, as `sliding_window` counts;
                         // 0: all before it
  double softcap = 0.0;  // the bound that scores approach, as `attn_logit_softcapping`; 0: none
  int64_t layer = 0;     // whose they are: by which masks are chosen
  at::Tensor sink_H;     // [H]: the score of one more key a head, whose value is zero (sink.h), as
                         // `sinks`; differentiable: a rank has the part of the gradient of its own
                         // rows and heads. Undefined: none
};

// What a forward leaves for a later one on the same inputs, which then neither computes attention
// nor travels the context axis again: selective checkpointing (DISTFLASHATTN, arXiv:2310.03294;
// LoongTrain's "++"). It belongs to one call of one layer: empty before the first forward, filled
// by it, used by those after it. T H (4 Dv + 4) bytes, and T H Dv e where heads were exchanged.
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

  // q_THD [T_local, H, D]; k_TKD [T_local, Hk, D], rotary embedding applied; v_TKD [T_local, Hk,
  // Dv], in most models of the keys' size, in those of latent attention of another; fp32, bf16,
  // fp16 or fp64. Returns [T_local, H, Dv] in q's dtype, differentiable; autograd's graph shares
  // what it needs, so the plan need not live until the backward. `kept` may be null. Throws.
  virtual at::Tensor Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD,
                             const at::Tensor& v_TKD, const ScoreRule& rule,
                             KeptAttention* kept) = 0;
};

class Attention {
 public:
  virtual ~Attention() = default;

  virtual absl::string_view name() const = 0;

  // How a stream of documents is to be divided over the ranks.
  virtual comm::Division Divide(absl::Span<const int64_t> lengths) const = 0;

  // INVALID_ARGUMENT where the layout was not made by that division, or masks are of other
  // documents. Every strategy takes every mask.
  virtual absl::StatusOr<std::unique_ptr<PlannedAttention>> Plan(
      std::shared_ptr<const comm::Layout> layout, LayerMasks masks = {}) const = 0;

  // The one strategy that runs for a stream of documents: itself, but for one that chooses.
  virtual const Attention& For(absl::Span<const int64_t> lengths) const { return *this; }

  // What runs for a stream of documents, in words; for a strategy that chooses, what it chose and
  // why.
  virtual std::string Describe(absl::Span<const int64_t> lengths) const = 0;

  // The one strategy that runs for it, as DescribeStrategy names it; nothing where there is no
  // choice between several.
  virtual std::optional<std::string> Chosen(absl::Span<const int64_t> lengths) const {
    return std::nullopt;
  }
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_ATTENTION_H_
