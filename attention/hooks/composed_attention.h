#ifndef MOONRING_ATTENTION_HOOKS_COMPOSED_ATTENTION_H_
#define MOONRING_ATTENTION_HOOKS_COMPOSED_ATTENTION_H_

// Attention composed of PyTorch operators, with materialized scores, for hooks on scores and for
// second derivatives. It supports every strategy's layout, mask, window, softcap and sink. It
// gathers the keys of whole documents (document_keys.h) and leaves queries and heads where they
// are.
//
// A tile's scores exist only while the tile is computed: the backward computes them again, and
// calls `bias` again. Key blocks that no query of a tile chose are left out of its products; within
// the others, all scores are computed. With `keeps_graph` the operators' graphs are kept instead,
// which can be differentiated any number of times.
//
// Precision: AccumulateType; the result is rounded to q's dtype once.
//
// Cost: M N H (2 D + 2 Dv) flops for a tile forward, three times that backward. Memory besides
// inputs and gradients: some five tensors [H, M, N] of one tile, at most kTileBytes each where 64
// queries permit that.

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/attention.h"
#include "attention/hooks/attention_hooks.h"
#include "attention/hooks/document_keys.h"
#include "attention/hooks/hook_record.h"
#include "attention/kernels/block_attention.h"

namespace moonring::attention {

inline constexpr int64_t kTileBytes = int64_t{32} << 20;

struct ComposedCall {
  std::shared_ptr<const DocumentKeys> keys;
  ScoreRule rule;
  std::shared_ptr<const AttentionHooks> hooks;  // null: none
  NamedTensors rows;                            // [T_local, ...]
  NamedTensors given;
  HookRecord* record = nullptr;  // null: results of hooks are not compared
  bool keeps_graph = false;
};

// q [T_local, H, D], k [T_local, Hk, D], v [T_local, Hk, Dv] -> [T_local, H, Dv], differentiable in
// these, the sink, `rows` and `given`. Collective. Throws a c10::ValueError for results of hooks
// that do not fit.
at::Tensor ComposedAttention(const ComposedCall& call, const QueryKeyValue& local);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_HOOKS_COMPOSED_ATTENTION_H_
