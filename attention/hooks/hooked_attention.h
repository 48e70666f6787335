#ifndef MOONRING_ATTENTION_HOOKS_HOOKED_ATTENTION_H_
#define MOONRING_ATTENTION_HOOKS_HOOKED_ATTENTION_H_

// One layer's attention with hooks (attention_hooks.h), around the attention of a plan. Hooks on
// scores replace the plan's kernels by composed attention; a hook on q, k and v alone does not.

#include <cstddef>
#include <memory>
#include <utility>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "attention/attention.h"
#include "attention/hooks/attention_hooks.h"
#include "attention/hooks/document_keys.h"
#include "attention/hooks/hook_record.h"

namespace moonring::attention {

class HookedAttention final : public PlannedAttention {
 public:
  struct Setting {
    std::shared_ptr<const DocumentKeys> keys;     // of the plan's layout
    std::shared_ptr<const AttentionHooks> hooks;  // null: none, with `keeps_graph`
    NamedTensors given;
    at::Tensor hidden_TD;                // the layer's input
    std::shared_ptr<HookRecord> record;  // of this forward of the layer
    // Attention is composed even without hooks on scores, with its whole graph.
    bool keeps_graph = false;
  };

  // `inner` must outlive this object; no autograd node refers to this object.
  HookedAttention(PlannedAttention& inner, Setting setting);

  at::Tensor Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& v_TKD,
                     const ScoreRule& rule, KeptAttention* kept) override;

 private:
  QueryKeyValue Replaced(const QueryKeyValue& rows, int64_t layer) const;
  NamedTensors Rows(int64_t layer) const;

  PlannedAttention& inner_;
  Setting setting_;
};

// A layer's attention in one forward, for the forward itself and its recomputations: that of the
// plan, or with hooks around it.
class LayerAttention {
 public:
  explicit LayerAttention(std::shared_ptr<PlannedAttention> plan) : plan_(std::move(plan)) {}
  // `hidden_TD` and `record` of the setting are not used, nor are the values of `given`.
  LayerAttention(std::shared_ptr<PlannedAttention> plan, HookedAttention::Setting setting);

  // The number of tensors that Call expects in `given`.
  size_t given() const { return setting_.given.size(); }

  // Calls `run` with the attention and returns its result. `hidden_TD`: the layer's input. `given`:
  // the layer's own copies of the hooks' tensors.
  template <typename Run>
  auto Call(const at::Tensor& hidden_TD, absl::Span<const at::Tensor> given, const Run& run) const {
    if (setting_.record == nullptr) return run(*plan_);
    HookedAttention::Setting setting = setting_;
    setting.hidden_TD = hidden_TD;
    for (size_t i = 0; i < given.size(); ++i) setting.given[i].second = given[i];
    HookedAttention hooked(*plan_, std::move(setting));
    return run(static_cast<PlannedAttention&>(hooked));
  }

 private:
  std::shared_ptr<PlannedAttention> plan_;
  HookedAttention::Setting setting_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_HOOKS_HOOKED_ATTENTION_H_
