#ifndef MOONRING_LUA_BINDINGS_BINDINGS_H_
#define MOONRING_LUA_BINDINGS_BINDINGS_H_

// The functions by which each bind_<library>.cc registers its classes and pushes its table of
// functions. The C++ libraries do not depend on Lua; only the bindings include both.

#include <lua.hpp>

#include "lua/binding/module.h"

namespace moonring::lua {

void OpenErrors(lua_State* L);
void OpenTensor(lua_State* L);
void OpenAutograd(lua_State* L);   // call it after OpenTensor
void OpenOperators(lua_State* L);  // call it after OpenTensor
void OpenSystem(lua_State* L);     // files, JSON, YAML, ranks
void OpenComm(lua_State* L);
void OpenCollectives(lua_State* L);  // call it after OpenTensor and OpenComm
void OpenAttention(lua_State* L);
void OpenMixing(lua_State* L);
void OpenModel(lua_State* L);
void OpenData(lua_State* L);
void OpenSource(lua_State* L);
void OpenObjectives(lua_State* L);
void OpenTrainer(lua_State* L);
void OpenSafetensors(lua_State* L);
void OpenTrace(lua_State* L);
void OpenHub(lua_State* L);            // used by lua/moonring/hub
void OpenServe(lua_State* L);          // used by lua/moonring/serve
void OpenWatch(lua_State* L);          // used by lua/moonring/report/watch.lua
void OpenRewards(lua_State* L);        // used by lua/moonring/rewards
void OpenPromptLibrary(lua_State* L);  // used by lua/moonring/prompt

// Registers the class of opened checkpoints. OpenModel calls this.
void RegisterCheckpoint(lua_State* L);

// These functions add to the table that OpenObjectives builds on top of the stack.
void AddVocabularyLosses(lua_State* L);
void AddPolicyGradient(lua_State* L);

// This function adds to the table that OpenData builds on top of the stack.
void AddSteps(lua_State* L);
void AddTexts(lua_State* L);  // tokenizers and chat templates

// These functions add to the table that OpenTrainer builds on top of the stack.
void AddOptimizerRules(lua_State* L);
void AddOuterSteps(lua_State* L);
void AddReports(lua_State* L);  // progress display, and the targets of report_to

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_BINDINGS_H_
