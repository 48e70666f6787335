#include "lua/vm/version.h"

namespace moonring::lua {

const char kVersion[] = MOONRING_VERSION;

}  // namespace moonring::lua
