#ifndef MOONRING_LUA_MIXING_OPTIONS_H_
#define MOONRING_LUA_MIXING_OPTIONS_H_

// Named options of mixers: what bind_attention.cc and bind_mixing.cc both read.

#include "lua/binding/options.h"
#include "mixers/mixing_strategy.h"

namespace moonring::lua {

// `key`: one of the names of mixing_strategy.h; auto where absent. Throws.
mixers::MixingStrategy MixingStrategyFrom(Options& options, const char* key);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_MIXING_OPTIONS_H_
