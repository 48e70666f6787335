#ifndef MOONRING_LUA_BINDINGS_MIXING_OPTIONS_H_
#define MOONRING_LUA_BINDINGS_MIXING_OPTIONS_H_

// Reads options about mixers (layers other than softmax attention), for bind_attention.cc and
// bind_mixing.cc.

#include "lua/binding/options.h"
#include "mixers/over_ranks/mixing_strategy.h"

namespace moonring::lua {

// Reads the option `key`, the name of a strategy in mixers/over_ranks/mixing_strategy.h; default
// "auto". Throws for an unknown name.
mixers::MixingStrategy MixingStrategyFrom(Options& options, const char* key);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_MIXING_OPTIONS_H_
