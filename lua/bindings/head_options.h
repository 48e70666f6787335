#ifndef MOONRING_LUA_BINDINGS_HEAD_OPTIONS_H_
#define MOONRING_LUA_BINDINGS_HEAD_OPTIONS_H_

#include "lua/binding/handles.h"
#include "objectives/vocabulary/head_projection.h"

namespace moonring::lua {

// Converts a head handle to the options of losses that use it.
inline objectives::HeadOptions HeadOptionsOf(const Head& head) {
  return {.scale = head.scale,
          .softcap = head.softcap,
          .products = head.products,
          .low_rank = head.low_rank};
}

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_HEAD_OPTIONS_H_
