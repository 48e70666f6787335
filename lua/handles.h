#ifndef MOONRING_LUA_HANDLES_H_
#define MOONRING_LUA_HANDLES_H_

// Objects that pass between the bindings of different libraries and that no core has as one object.

#include "comm/parameter.h"

namespace moonring::lua {

struct ParameterList {
  comm::Parameters parameters;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HANDLES_H_
