#include "lua/bindings/answer_hooks.h"

#include <stdexcept>
#include <utility>

#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "lua/binding/class.h"
#include "lua/binding/error_value.h"
#include "lua/binding/stack.h"
#include "lua/binding/tensor.h"
#include "lua/bindings/rollout_options.h"

namespace moonring::lua {
namespace {

// Reads an option that must be a function. Returns its stack index; 0 if it is absent.
int FunctionOption(lua_State* L, Options& options, const char* name) {
  const int at = options.Push(name);
  TORCH_CHECK_VALUE(at == 0 || lua_isfunction(L, at), "option '", name,
                    "': expected a function, got a ", luaL_typename(L, at));
  return at;
}

// Sets a field of the table on top of the stack.
void SetIndex(lua_State* L, const char* name, int64_t number) {
  lua_pushnumber(L, static_cast<double>(number));
  lua_setfield(L, -2, name);
}

// Called with (body*, values ..) inside a moonring.scope.
int RunBody(lua_State* L) {
  const auto& body = *static_cast<absl::FunctionRef<void(lua_State*)>*>(lua_touserdata(L, 1));
  lua_remove(L, 1);
  body(L);
  return 0;
}

}  // namespace

AnswerHooks::AnswerHooks(lua_State* L, Options& options) : L_(L) {
  luaL_checkstack(L, 12, "hooks of answers");
  lua_newtable(L);
  answers_ = lua_gettop(L);
  lua_newtable(L);
  prompts_ = lua_gettop(L);
  lua_pushnil(L);
  error_ = lua_gettop(L);
  logits_ = FunctionOption(L, options, "logits");
}

model::LogitsHook AnswerHooks::logits() {
  if (logits_ == 0) return nullptr;
  return [this](const at::Tensor& logits_BV, absl::Span<const model::OpenAnswer> answers) {
    return CallLogits(logits_BV, answers);
  };
}

void AnswerHooks::AddTo(model::RolloutOptions& wanted, Options& options,
                        const PromptReader& reader) {
  wanted.logits = logits();
  wanted.ends_turn = reader.ends_turn();
  continue_ = FunctionOption(L_, options, "continue");
  arrivals_ = FunctionOption(L_, options, "arrivals");
  on_token_ = FunctionOption(L_, options, "on_token");
  on_answer_ = FunctionOption(L_, options, "on_answer");
  wanted.max_turns = options.Get<int64_t>("max_turns", 0);
  if (continue_ != 0)
    wanted.next_turn = [this](const model::OpenAnswer& answer) { return CallContinue(answer); };
  if (arrivals_ != 0) wanted.arrivals = [this, &reader] { return CallArrivals(reader); };
  if (on_token_ != 0) {
    wanted.on_token = [this](const model::OpenAnswer& answer, const model::Choice& choice) {
      return CallOnToken(answer, choice);
    };
  }
  if (on_answer_ != 0) {
    wanted.on_answer = [this](int64_t prompt, int64_t number, const model::Answer& answer) {
      CallOnAnswer(prompt, number, answer, continue_ != 0);
    };
  }
}

void AnswerHooks::Raise() {
  if (!raised_) return;
  lua_pushvalue(L_, error_);
  lua_error(L_);
}

void AnswerHooks::Protected(const char* name, absl::Span<const int> values,
                            absl::FunctionRef<void(lua_State*)> body) {
  luaL_checkstack(L_, LUA_MINSTACK, name);
  lua_pushcfunction(L_, &Scope);
  lua_pushcfunction(L_, &RunBody);
  lua_pushlightuserdata(L_, &body);
  for (const int value : values) lua_pushvalue(L_, value);
  if (lua_pcall(L_, 2 + static_cast<int>(values.size()), 0, 0) == 0) return;
  const std::string text = ReadError(L_, -1).Text();
  raised_ = true;
  lua_replace(L_, error_);
  throw std::runtime_error(absl::StrCat(name, ": ", text));
}

// Pushes a new table for an answer, without its ids.
void AnswerHooks::PushNewAnswer(const model::OpenAnswer& answer) {
  lua_createtable(L_, 0, 8);
  SetIndex(L_, "prompt", answer.prompt + 1);
  SetIndex(L_, "answer", answer.answer + 1);
  SetIndex(L_, "key", static_cast<int64_t>(answer.key));
  lua_newtable(L_);
  lua_setfield(L_, -2, "ids");
  lua_rawgeti(L_, prompts_, static_cast<int>(answer.prompt + 1));
  if (lua_isnil(L_, -1)) {
    lua_pop(L_, 1);
    Value<std::vector<int64_t>>::Push(L_, {answer.prompt_ids.begin(), answer.prompt_ids.end()});
    lua_pushvalue(L_, -1);
    lua_rawseti(L_, prompts_, static_cast<int>(answer.prompt + 1));
  }
  lua_setfield(L_, -2, "prompt_ids");
}

void AnswerHooks::PushOpen(const model::OpenAnswer& answer) {
  const auto [at, is_new] = known_.try_emplace({answer.prompt, answer.answer},
                                               Known{static_cast<int>(known_.size() + 1)});
  Known& known = at->second;
  if (is_new) {
    PushNewAnswer(answer);
    lua_pushvalue(L_, -1);
    lua_rawseti(L_, answers_, known.number);
  } else {
    lua_rawgeti(L_, answers_, known.number);
  }
  SetIndex(L_, "turn", answer.turn + 1);
  SetIndex(L_, "first", answer.turn_begin + 1);
  lua_getfield(L_, -1, "ids");
  TORCH_CHECK_VALUE(lua_istable(L_, -1), "an answer's field 'ids' was replaced by a ",
                    luaL_typename(L_, -1), "; expected that hooks leave it as it is");
  for (; known.ids < answer.ids.size(); ++known.ids) {
    lua_pushnumber(L_, static_cast<double>(answer.ids[known.ids]));
    lua_rawseti(L_, -2, static_cast<int>(known.ids + 1));
  }
  lua_pop(L_, 1);
}

at::Tensor AnswerHooks::CallLogits(const at::Tensor& logits_BV,
                                   absl::Span<const model::OpenAnswer> answers) {
  at::Tensor result;
  lua_createtable(L_, static_cast<int>(answers.size()), 0);
  const int rows = lua_gettop(L_);
  for (size_t i = 0; i < answers.size(); ++i) {
    PushOpen(answers[i]);
    lua_rawseti(L_, rows, static_cast<int>(i + 1));
  }
  Protected("logits", {logits_, rows}, [&](lua_State* L) {
    Value<at::Tensor>::Push(L, logits_BV);
    lua_insert(L, 2);
    lua_call(L, 2, 1);
    if (lua_isnil(L, -1)) {
      result = logits_BV;
      return;
    }
    const std::shared_ptr<TensorHandle>* handle = Class<TensorHandle>::Test(L, -1);
    TORCH_CHECK_VALUE(handle != nullptr && *handle != nullptr, "logits: the hook's result is a ",
                      luaL_typename(L, -1),
                      ", expected a Tensor, or nothing if it changed the logits in place");
    TORCH_CHECK_VALUE((*handle)->tensor.defined(),
                      "logits: the hook's result is a tensor that is closed (its scope has ended; "
                      "x:keep() moves it out)");
    result = (*handle)->tensor;
  });
  lua_settop(L_, rows - 1);
  return result;
}

std::optional<std::vector<int64_t>> AnswerHooks::CallContinue(const model::OpenAnswer& answer) {
  std::optional<std::vector<int64_t>> given;
  PushOpen(answer);
  const int row = lua_gettop(L_);
  Protected("continue", {continue_, row}, [&](lua_State* L) {
    lua_call(L, 1, 1);
    if (lua_isnil(L, -1)) return;
    TORCH_CHECK_VALUE(lua_istable(L, -1), "continue: the result is a ", luaL_typename(L, -1),
                      ", expected a list of token ids, or nothing if the answer is finished");
    given.emplace();
    const int list = lua_gettop(L);
    const auto size = static_cast<int>(lua_objlen(L, list));
    for (int i = 1; i <= size; ++i) {
      lua_rawgeti(L, list, i);
      TORCH_CHECK_VALUE(lua_type(L, -1) == LUA_TNUMBER && IsWhole(lua_tonumber(L, -1)),
                        "continue: item ", i, " of the result is a ", luaL_typename(L, -1),
                        ", expected a token id");
      given->push_back(static_cast<int64_t>(lua_tonumber(L, -1)));
      lua_pop(L, 1);
    }
    lua_pushnil(L);
    TORCH_CHECK_VALUE(size > 0 || lua_next(L, list) == 0,
                      "continue: the result has named fields, expected a list of token ids");
  });
  lua_settop(L_, row - 1);
  return given;
}

std::vector<model::RolloutPrompt> AnswerHooks::CallArrivals(const PromptReader& reader) {
  std::vector<model::RolloutPrompt> arrived;
  Protected("arrivals", {arrivals_}, [&](lua_State* L) {
    lua_call(L, 0, 1);
    if (lua_isnil(L, -1)) return;
    TORCH_CHECK_VALUE(lua_istable(L, -1), "arrivals: the result is a ", luaL_typename(L, -1),
                      ", expected a list of prompts, or nothing");
    arrived = reader.Read(L, lua_gettop(L));
  });
  return arrived;
}

bool AnswerHooks::CallOnToken(const model::OpenAnswer& answer, const model::Choice& choice) {
  bool wanted = true;
  Protected("on_token", {on_token_}, [&](lua_State* L) {
    for (const int64_t number : {answer.prompt + 1, answer.answer + 1, choice.id})
      lua_pushnumber(L, static_cast<double>(number));
    lua_pushnumber(L, choice.log_prob);
    if (choice.top.empty()) {
      lua_pushnil(L);
    } else {
      PushTop(L, choice.top);
    }
    lua_call(L, 5, 1);
    wanted = !(lua_isboolean(L, -1) && lua_toboolean(L, -1) == 0);
  });
  return wanted;
}

void AnswerHooks::CallOnAnswer(int64_t prompt, int64_t number, const model::Answer& answer,
                               bool has_turns) {
  Protected("on_answer", {on_answer_}, [&](lua_State* L) {
    lua_pushnumber(L, static_cast<double>(prompt + 1));
    lua_pushnumber(L, static_cast<double>(number + 1));
    PushAnswer(L, answer, has_turns);
    lua_call(L, 3, 0);
  });
}

}  // namespace moonring::lua
