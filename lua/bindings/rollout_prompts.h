#ifndef MOONRING_LUA_BINDINGS_ROLLOUT_PROMPTS_H_
#define MOONRING_LUA_BINDINGS_ROLLOUT_PROMPTS_H_

// Reads a script's prompts for generating answers: {ids, key} and, for a prompt whose answers are
// sampled in another way than those of the other prompts, {answers, top, max_new_tokens,
// temperature, top_k, top_p, min_p, repetition_penalty, stop_ids, seed, stop_texts}.

#include <memory>
#include <string>
#include <vector>

#include <lua.hpp>

#include "lua/binding/options.h"
#include "model/rollout/rollout_options.h"
#include "model/token_choice.h"

namespace moonring::data {
class Tokenizer;
}  // namespace moonring::data

namespace moonring::lua {

// Reads max_new_tokens, temperature, top_k, top_p, repetition_penalty, stop_ids and seed; those
// that are absent are as in `sampling`.
model::SamplingOptions SamplingOf(Options& options, model::SamplingOptions sampling = {});

class PromptReader {
 public:
  // Reads the options stop_texts and tokenizer of the call. `sampling`: of prompts that do not say
  // otherwise.
  PromptReader(const model::SamplingOptions& sampling, Options& options);

  // Ends turns at the call's stop texts; null if there are none.
  model::EndsTurn ends_turn() const { return EndsAt(texts_); }

  // Reads the list of prompts at stack index `index`.
  std::vector<model::RolloutPrompt> Read(lua_State* L, int index) const;

 private:
  model::EndsTurn EndsAt(const std::vector<std::string>& texts) const;

  const model::SamplingOptions sampling_;
  std::vector<std::string> texts_;
  std::shared_ptr<data::Tokenizer> tokenizer_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_ROLLOUT_PROMPTS_H_
