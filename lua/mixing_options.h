#ifndef MOONRING_LUA_MIXING_OPTIONS_H_
#define MOONRING_LUA_MIXING_OPTIONS_H_

// Options for mixers that both bind_attention.cc and bind_mixing.cc read.

#include "lua/binding/options.h"
#include "mixers/over_ranks/mixing_strategy.h"

namespace moonring::lua {

// Reads the option `key`, a name from mixing_strategy.h; default auto. Throws for another name.
mixers::MixingStrategy MixingStrategyFrom(Options& options, const char* key);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_MIXING_OPTIONS_H_
