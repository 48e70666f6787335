#ifndef MOONRING_LUA_BINDINGS_ANSWER_HOOKS_H_
#define MOONRING_LUA_BINDINGS_ANSWER_HOOKS_H_

// A script's functions that take part in generating answers: `logits` changes the logits of the
// next tokens, `continue` gives the tokens that follow a finished turn, `arrivals` gives further
// prompts, on_token and on_answer get the results as they come. The first two get each answer as
// one Lua table {prompt, answer, key, prompt_ids, ids, turn, first}, the same table in all calls,
// in which the script may keep a state of its own. `prompt`, `answer`, `turn` and `first` (the
// index in `ids` of the turn's first token) count from 1.
//
// An error in a function becomes a C++ exception inside the core, so that the ranks that take part
// are told, and Raise raises the Lua error itself afterwards.
//
// Cost of a call of `logits`: one handle, and for each answer the ids that are new to its table.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lua.hpp>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "lua/binding/options.h"
#include "lua/bindings/rollout_prompts.h"
#include "model/logits_hook.h"
#include "model/rollout/rollout_options.h"
#include "model/token_choice.h"

namespace moonring::lua {

// The functions stay on the stack: an AnswerHooks is valid until the calling C function returns.
class AnswerHooks {
 public:
  // Reads the option `logits`.
  AnswerHooks(lua_State* L, Options& options);
  AnswerHooks(const AnswerHooks&) = delete;
  AnswerHooks& operator=(const AnswerHooks&) = delete;

  model::LogitsHook logits();  // null if absent

  // Reads `continue`, max_turns, `arrivals`, on_token and on_answer, and sets all functions.
  // `reader` must outlive this object.
  void AddTo(model::RolloutOptions& wanted, Options& options, const PromptReader& reader);

  // Raises the error that a function raised, if any.
  void Raise();

 private:
  at::Tensor CallLogits(const at::Tensor& logits_BV, absl::Span<const model::OpenAnswer> answers);
  std::optional<std::vector<int64_t>> CallContinue(const model::OpenAnswer& answer);
  std::vector<model::RolloutPrompt> CallArrivals(const PromptReader& reader);
  bool CallOnToken(const model::OpenAnswer& answer, const model::Choice& choice);
  void CallOnAnswer(int64_t prompt, int64_t number, const model::Answer& answer, bool has_turns);
  // Pushes the table of an answer, up to date.
  void PushOpen(const model::OpenAnswer& answer);
  // Runs `body` in protected mode, in a moonring.scope. Its stack has the values that are on this
  // one at `values`.
  void Protected(const char* name, absl::Span<const int> values,
                 absl::FunctionRef<void(lua_State*)> body);
  void PushNewAnswer(const model::OpenAnswer& answer);

  lua_State* const L_;
  // Stack indices; 0: absent.
  int logits_ = 0, continue_ = 0, arrivals_ = 0, on_token_ = 0, on_answer_ = 0;
  int answers_ = 0, prompts_ = 0;  // tables by number: of answers' tables, of prompts' ids
  struct Known {
    int number = 0;  // index in the table of answers' tables
    size_t ids = 0;  // in the answer's table
  };
  std::map<std::pair<int64_t, int64_t>, Known> known_;  // by prompt and answer
  bool raised_ = false;
  int error_ = 0;  // stack index of the error's place
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_ANSWER_HOOKS_H_
