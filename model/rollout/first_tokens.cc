#include "model/rollout/first_tokens.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "model/rollout/decisions.h"

namespace moonring::model {

std::vector<std::vector<Answer>> FirstTokens(const Transformer& model, const at::Tensor& logits_BV,
                                             absl::Span<const RolloutPrompt> prompts,
                                             const RolloutOptions& options) {
  const auto count = static_cast<int64_t>(prompts.size());
  const int64_t vocabulary = model.config().vocab_size;
  TORCH_CHECK_VALUE(
      logits_BV.dim() == 2 && logits_BV.size(0) == count && logits_BV.size(1) == vocabulary,
      "first tokens: logits of shape ", logits_BV.sizes(), ", expected [", count, ", ", vocabulary,
      "]");
  const at::Tensor host_BV = logits_BV.detach().to(at::kCPU);
  std::vector<Undecided> undecided;
  for (int64_t p = 0; p < count; ++p) {
    const RolloutPrompt& prompt = prompts[p];
    base::ThrowIfError(base::WithContext(Validate(prompt, model), absl::StrCat("prompt ", p)));
    for (int64_t a = 0; a < AnswersOf(prompt, options); ++a) {
      const OpenAnswer open{.prompt = p, .answer = a, .key = prompt.key, .prompt_ids = prompt.ids};
      undecided.push_back({open, &prompt, host_BV.select(0, p)});
    }
  }
  std::vector<std::vector<Answer>> answers(prompts.size());
  const std::vector<Decision> decisions = Decisions(options, model).Tokens(undecided);
  for (size_t i = 0; i < decisions.size(); ++i) {
    const Choice& choice = decisions[i].choice;
    Answer answer{.ids = {choice.id},
                  .stopped = decisions[i].stopped,
                  .log_probs = {choice.log_prob},
                  .mask = {1}};
    if (undecided[i].prompt->top > 0) answer.top = {choice.top};
    answers[undecided[i].answer.prompt].push_back(std::move(answer));
  }
  return answers;
}

}  // namespace moonring::model
