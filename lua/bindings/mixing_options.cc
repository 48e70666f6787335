#include "lua/bindings/mixing_options.h"

#include <optional>
#include <string>

#include <c10/util/Exception.h>

namespace moonring::lua {

mixers::MixingStrategy MixingStrategyFrom(Options& options, const char* key) {
  const std::string name = options.Get<std::string>(key, "auto");
  const std::optional<mixers::MixingStrategy> strategy = mixers::MixingStrategyOf(name);
  TORCH_CHECK_VALUE(strategy.has_value(), key, ": expected auto, heads, spans or relay, got '",
                    name, "'");
  return *strategy;
}

}  // namespace moonring::lua
