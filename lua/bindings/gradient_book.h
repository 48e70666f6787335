#ifndef MOONRING_LUA_BINDINGS_GRADIENT_BOOK_H_
#define MOONRING_LUA_BINDINGS_GRADIENT_BOOK_H_

// What a Lua state remembers in order to find two mistakes in the gradients of scripts that would
// otherwise be silent: an optimizer's step with gradients that were not summed over the ranks, and
// a parameter that is trained by no one because it is in no list of parameters.

#include <memory>
#include <string>
#include <vector>

#include <lua.hpp>

#include "base/autograd/parameter.h"
#include "trainer/optimizer/optimizer.h"

namespace moonring::lua {

// Records that a mesh of this many ranks was created.
void NoteRanks(lua_State* L, int ranks);

// Throws FAILED_PRECONDITION if this process is one of several ranks and the optimizer would use a
// gradient that was not summed over them (Parameter::is_summed).
void CheckSummed(lua_State* L, const trainer::Optimizer& optimizer);

// Records a parameter that a script created.
void NoteParameter(lua_State* L, const std::shared_ptr<base::Parameter>& parameter);

// The names of the trainable parameters that scripts created, that have a gradient and are not in
// `listed`.
std::vector<std::string> UnlistedParameters(lua_State* L, const base::Parameters& listed);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_GRADIENT_BOOK_H_
