#ifndef MOONRING_LUA_BINDINGS_OBJECTIVE_SUMS_H_
#define MOONRING_LUA_BINDINGS_OBJECTIVE_SUMS_H_

// Pushes the results of training objectives for scripts: the loss, and a table of metrics by name.
// A metric is {sum, count}; on a GPU it is one tensor [sum, count], which is not copied to the host
// here. A minimum or maximum is {value, count, "min"} or {value, count, "max"}, where value and
// count are tensors on a GPU.

#include <vector>

#include <lua.hpp>

#include "lua/binding/stack.h"
#include "lua/binding/tensor.h"
#include "objectives/sums.h"

namespace moonring::lua {

template <>
struct Value<objectives::Metric> {
  static int Push(lua_State* L, const objectives::Metric& metric) {
    const bool mean = metric.kind == objectives::MetricKind::kMean;
    if (mean && metric.unread.defined()) return Value<at::Tensor>::Push(L, metric.unread);
    if (mean) return Value<std::vector<double>>::Push(L, {metric.sum, metric.count});
    lua_createtable(L, 3, 0);
    for (int i = 0; i < 2; ++i) {
      if (metric.unread.defined()) {
        Value<at::Tensor>::Push(L, metric.unread[i]);
      } else {
        lua_pushnumber(L, i == 0 ? metric.sum : metric.count);
      }
      lua_rawseti(L, -2, i + 1);
    }
    lua_pushstring(L, metric.kind == objectives::MetricKind::kMin ? "min" : "max");
    lua_rawseti(L, -2, 3);
    return 1;
  }
};

template <>
struct Value<objectives::Metrics> {
  static int Push(lua_State* L, const objectives::Metrics& metrics) {
    lua_newtable(L);
    for (const auto& [name, metric] : metrics) {
      Value<objectives::Metric>::Push(L, metric);
      lua_setfield(L, -2, name.c_str());
    }
    return 1;
  }
};

template <>
struct Value<objectives::Sums> {
  static int Push(lua_State* L, const objectives::Sums& sums) {
    return Value<at::Tensor>::Push(L, sums.loss) +
           Value<objectives::Metrics>::Push(L, sums.metrics);
  }
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_OBJECTIVE_SUMS_H_
