#ifndef MOONRING_MODEL_LOGITS_HOOK_H_
#define MOONRING_MODEL_LOGITS_HOOK_H_

// A caller's function that changes the logits from which the next tokens are chosen: bans,
// grammars, a truncation rule of its own. It runs after the model's scale and softcap and before
// the repetition penalty, temperature, top_k, top_p and min_p. It must treat each row independently
// of the others, because which answers are in a batch depends on speed settings.

#include <cstdint>
#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"

namespace moonring::model {

// An answer that is being generated.
struct OpenAnswer {
  int64_t prompt = 0, answer = 0;  // index of the prompt, and of the answer to it
  uint64_t key = 0;                // RolloutPrompt::key
  absl::Span<const int64_t> prompt_ids;
  absl::Span<const int64_t> ids;  // tokens after the prompt, sampled or given
  int64_t turn = 0;               // turns before this one
  int64_t turn_begin = 0;         // index in `ids` of the turn's first token
};

// "prompt 3, answer 1", counted from 1 as in Lua's lists.
std::string Describe(const OpenAnswer& answer);

// Receives logits [B, V], which it may overwrite, and the answer of each row. Returns the logits to
// choose from.
using LogitsHook =
    std::function<at::Tensor(const at::Tensor& logits_BV, absl::Span<const OpenAnswer> answers)>;

// Calls `hook` and checks its result: the same shape, dtype and device; in each row no NaN and no
// +inf, and at least one id above -inf. Throws ValueError that names the answer of a wrong row. The
// hook may overwrite `logits_BV`. Cost: the maximum of each row.
at::Tensor HookedLogits(const LogitsHook& hook, const at::Tensor& logits_BV,
                        absl::Span<const OpenAnswer> answers);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_LOGITS_HOOK_H_
