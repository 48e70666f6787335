#include "lua/bindings/rollout_options.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "comm/mesh.h"
#include "lua/binding/class.h"
#include "lua/binding/handles.h"
#include "lua/bindings/forward_options.h"
#include "lua/bindings/rollout_prompts.h"

namespace moonring::lua {

model::RolloutOptions RolloutOptionsOf(lua_State* L, Options& options, int64_t layers) {
  model::RolloutOptions wanted;
  wanted.sampling = SamplingOf(options);
  wanted.sampling.min_p = options.Get<double>("min_p", wanted.sampling.min_p);
  wanted.answers = options.Get<int64_t>("answers", wanted.answers);
  wanted.sequences = options.Get<int64_t>("sequences", wanted.sequences);
  wanted.keep_casts = options.Get<bool>("keep_casts", wanted.keep_casts);
  if (const auto mesh = options.Find<std::shared_ptr<comm::Mesh>>("lockstep"))
    wanted.lockstep = (*mesh)->world_group();
  if (const auto attention = options.Find<std::shared_ptr<MeshAttention>>("attention")) {
    wanted.spread = model::SpreadSequences{(*attention)->mesh->sp_group(), (*attention)->strategy,
                                           (*attention)->mixing};
  }
  wanted.after = AroundOf(L, options, layers);
  return wanted;
}

void PushTop(lua_State* L, const std::vector<model::IdLogProb>& top) {
  std::vector<int64_t> ids;
  std::vector<double> log_probs;
  for (const model::IdLogProb& likely : top) {
    ids.push_back(likely.id);
    log_probs.push_back(likely.log_prob);
  }
  lua_createtable(L, 0, 2);
  Value<std::vector<int64_t>>::Push(L, ids);
  lua_setfield(L, -2, "ids");
  Value<std::vector<double>>::Push(L, log_probs);
  lua_setfield(L, -2, "log_probs");
}

void PushAnswer(lua_State* L, const model::Answer& answer, bool has_turns) {
  lua_createtable(L, 0, has_turns ? 5 : 3);
  Value<std::vector<int64_t>>::Push(L, answer.ids);
  lua_setfield(L, -2, "ids");
  lua_pushboolean(L, answer.stopped);
  lua_setfield(L, -2, "stopped");
  Value<std::vector<double>>::Push(L, answer.log_probs);
  lua_setfield(L, -2, "log_probs");
  if (has_turns) {
    Value<std::vector<int64_t>>::Push(L, answer.mask);
    lua_setfield(L, -2, "mask");
    lua_pushnumber(L, static_cast<double>(answer.turns));
    lua_setfield(L, -2, "turns");
  }
  if (answer.cancelled) {
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "cancelled");
  }
  if (answer.top.empty()) return;
  lua_createtable(L, static_cast<int>(answer.top.size()), 0);
  for (size_t i = 0; i < answer.top.size(); ++i) {
    PushTop(L, answer.top[i]);
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
  lua_setfield(L, -2, "top");
}

Pushed PushAnswers(lua_State* L, const std::vector<std::vector<model::Answer>>& answers,
                   bool has_turns) {
  luaL_checkstack(L, LUA_MINSTACK, "answers");
  lua_createtable(L, static_cast<int>(answers.size()), 0);
  for (size_t p = 0; p < answers.size(); ++p) {
    lua_createtable(L, static_cast<int>(answers[p].size()), 0);
    for (size_t a = 0; a < answers[p].size(); ++a) {
      PushAnswer(L, answers[p][a], has_turns);
      lua_rawseti(L, -2, static_cast<int>(a + 1));
    }
    lua_rawseti(L, -2, static_cast<int>(p + 1));
  }
  return {1};
}

}  // namespace moonring::lua
