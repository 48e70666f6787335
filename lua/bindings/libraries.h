#ifndef MOONRING_LUA_BINDINGS_LIBRARIES_H_
#define MOONRING_LUA_BINDINGS_LIBRARIES_H_

#include "absl/types/span.h"
#include "lua/vm/vm.h"

namespace moonring::lua {

// The native libraries of every state that runs Moonring's scripts, in the order in which they are
// opened.
absl::Span<const Library> AllLibraries();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_LIBRARIES_H_
