#ifndef MOONRING_LUA_BINDINGS_H_
#define MOONRING_LUA_BINDINGS_H_

// What each bind_<library>.cc offers the virtual machine: it registers its classes and leaves its
// table of functions on the stack. Cores know nothing of Lua; these files are the only ones that
// see both.

#include <initializer_list>

#include <lua.hpp>

#include "lua/binding/stack.h"

namespace moonring::lua {

void OpenTensor(lua_State* L);
void OpenAutograd(lua_State* L);   // after OpenTensor
void OpenOperators(lua_State* L);  // after OpenTensor
void OpenSystem(lua_State* L);     // files, JSON, YAML, ranks
void OpenComm(lua_State* L);
void OpenAttention(lua_State* L);
void OpenMixing(lua_State* L);
void OpenModel(lua_State* L);
void OpenData(lua_State* L);
void OpenSource(lua_State* L);
void OpenObjectives(lua_State* L);
void OpenTrainer(lua_State* L);
void OpenSafetensors(lua_State* L);
void OpenTrace(lua_State* L);
void OpenHub(lua_State* L);            // what lua/moonring/hub is written on
void OpenWatch(lua_State* L);          // what lua/moonring/report/watch.lua is written on
void OpenRewards(lua_State* L);        // what lua/moonring/rewards is written on
void OpenPromptLibrary(lua_State* L);  // what lua/moonring/prompt is written on

// The class of opened checkpoints, for OpenModel.
void RegisterCheckpoint(lua_State* L);

// Adds to the table of OpenObjectives, which is on top of the stack.
void AddVocabularyLosses(lua_State* L);
void AddPolicyGradient(lua_State* L);

// Adds to the table of OpenData, which is on top of the stack.
void AddSteps(lua_State* L);

// Adds to the table of OpenData, which is on top of the stack.
void AddSteps(lua_State* L);

// Adds to the table of OpenTrainer, which is on top of the stack.
void AddOptimizerRules(lua_State* L);
void AddOuterSteps(lua_State* L);
void AddReports(lua_State* L);  // progress, and what report_to names

// Pushes a new table of functions, named "module.name" for the guard's messages.
void PushModule(lua_State* L, const char* module, std::initializer_list<NamedFunction> functions);

// The same into the table on top of the stack.
void AddToModule(lua_State* L, const char* module, std::initializer_list<NamedFunction> functions);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_H_
