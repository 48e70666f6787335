#include "lua/bindings/rollout_options.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "comm/mesh.h"
#include "lua/binding/class.h"
#include "lua/binding/handles.h"
#include "lua/bindings/forward_options.h"

namespace moonring::lua {

model::SamplingOptions SamplingOf(Options& options) {
  model::SamplingOptions sampling;
  sampling.max_new_tokens = options.Get<int64_t>("max_new_tokens", sampling.max_new_tokens);
  sampling.temperature = options.Get<double>("temperature", sampling.temperature);
  sampling.top_k = options.Get<int64_t>("top_k", sampling.top_k);
  sampling.top_p = options.Get<double>("top_p", sampling.top_p);
  sampling.repetition_penalty =
      options.Get<double>("repetition_penalty", sampling.repetition_penalty);
  sampling.stop_ids = options.Get<std::vector<int64_t>>("stop_ids", {});
  sampling.seed = static_cast<uint64_t>(options.Get<int64_t>("seed", 0));
  return sampling;
}

std::vector<model::RolloutPrompt> PromptsOf(lua_State* L, int index) {
  const int size = static_cast<int>(ListSize(L, index));
  std::vector<model::RolloutPrompt> prompts;
  for (int i = 1; i <= size; ++i) {
    lua_rawgeti(L, index, i);
    if (!lua_istable(L, -1)) {
      throw ValueError(index, absl::StrCat("prompt ", i, ": expected a table of ids and key, got ",
                                           WordsOfValue(L, -1)));
    }
    Options prompt(L, lua_gettop(L));
    prompts.push_back({prompt.Require<std::vector<int64_t>>("ids"),
                       static_cast<uint64_t>(prompt.Get<int64_t>("key", 0))});
    prompt.Finish();
    lua_pop(L, 1);
  }
  return prompts;
}

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

Pushed PushAnswers(lua_State* L, const std::vector<std::vector<model::Answer>>& answers,
                   bool has_turns) {
  lua_createtable(L, static_cast<int>(answers.size()), 0);
  for (size_t p = 0; p < answers.size(); ++p) {
    lua_createtable(L, static_cast<int>(answers[p].size()), 0);
    for (size_t a = 0; a < answers[p].size(); ++a) {
      const model::Answer& answer = answers[p][a];
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
      lua_rawseti(L, -2, static_cast<int>(a + 1));
    }
    lua_rawseti(L, -2, static_cast<int>(p + 1));
  }
  return {1};
}

}  // namespace moonring::lua
