#include "model/rollout/rollout_options.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "comm/same_number.h"
#include "model/next_logits.h"

namespace moonring::model {

absl::Status Validate(const RolloutOptions& options, absl::Span<const RolloutPrompt> prompts,
                      const Transformer& model) {
  RETURN_IF_ERROR(Validate(options.sampling));
  const auto refuse = [](auto... words) {
    return absl::InvalidArgumentError(absl::StrCat(words...));
  };
  if (options.answers < 1) return refuse("answers is ", options.answers, ", expected 1 or more");
  if (options.sequences < 1)
    return refuse("sequences is ", options.sequences, ", expected 1 or more");
  if (options.max_turns < 0)
    return refuse("max_turns is ", options.max_turns, ", expected 0 (no limit) or more");
  if (options.max_turns > 0 && options.next_turn == nullptr)
    return refuse("max_turns is ", options.max_turns, " without a function that continues answers");
  const auto& experts = model.options().expert_ranks;
  if (experts != nullptr && !experts->alone() && options.lockstep == nullptr)
    return refuse("ranks share the experts, so they must run together: expected lockstep");
  for (size_t i = 0; i < prompts.size(); ++i)
    RETURN_IF_ERROR(Validate(prompts[i], model), absl::StrCat("prompt ", i));
  return absl::OkStatus();
}

absl::Status Validate(const RolloutPrompt& prompt, const Transformer& model) {
  if (prompt.sampling.has_value()) RETURN_IF_ERROR(Validate(*prompt.sampling));
  if (prompt.answers < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("answers is ", prompt.answers, ", expected 1 or more"));
  if (prompt.top < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("top is ", prompt.top, ", expected 0 (none) or more"));
  return CheckPrompt(model, prompt.ids);
}

absl::Status CheckSame(comm::Communicator& ranks, absl::Span<const RolloutPrompt> prompts,
                       const RolloutOptions& options) {
  uint64_t hash = 0xCBF29CE484222325u;
  const auto add = [&](auto number) {
    uint64_t bits = 0;
    std::memcpy(&bits, &number, sizeof(number));
    hash = (hash ^ bits) * 0x100000001B3u;
    hash ^= hash >> 29;
  };
  const auto add_sampling = [&](const SamplingOptions& sampling) {
    for (const int64_t number :
         {sampling.max_new_tokens, sampling.top_k, static_cast<int64_t>(sampling.seed)})
      add(number);
    for (const double number :
         {sampling.temperature, sampling.top_p, sampling.min_p, sampling.repetition_penalty})
      add(number);
    for (const int64_t id : sampling.stop_ids) add(id);
  };
  int64_t functions = 0;
  for (const bool given :
       {options.logits != nullptr, options.ends_turn != nullptr, options.next_turn != nullptr,
        options.arrivals != nullptr, options.on_token != nullptr, options.on_answer != nullptr})
    functions = 2 * functions + (given ? 1 : 0);
  for (const int64_t number : {options.answers, options.sequences, options.max_turns, functions})
    add(number);
  add_sampling(options.sampling);
  for (const RolloutPrompt& prompt : prompts) {
    for (const int64_t number : {static_cast<int64_t>(prompt.key), prompt.answers, prompt.top,
                                 static_cast<int64_t>(prompt.ids.size())})
      add(number);
    if (prompt.sampling.has_value()) add_sampling(*prompt.sampling);
    for (const int64_t id : prompt.ids) add(id);
  }
  ASSIGN_OR_RETURN(const bool same, comm::IsSameNumber(ranks, static_cast<int64_t>(hash)));
  if (same) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "ranks that share every sequence were given other prompts or options");
}

}  // namespace moonring::model
