#include "lua/operators/indexing.h"

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include <ATen/TensorIndexing.h>
#include <ATen/core/Tensor.h>

#include "absl/strings/string_view.h"
#include "lua/binding/class.h"
#include "lua/binding/stack.h"
#include "lua/binding/tensor.h"
#include "lua/operators/values.h"

namespace moonring::lua {
namespace {

using at::indexing::TensorIndex;

constexpr size_t kMostDims = 64;  // LibTorch's limit

int64_t WholeNumber(lua_State* L, int at) {
  const double number = lua_tonumber(L, at);
  TORCH_CHECK_VALUE(IsWhole(number), "index: expected a whole number, got ", number);
  return static_cast<int64_t>(number);
}

// Reads a bound of a slice. A number that is too large becomes the largest integer, which is beyond
// the end of any dim.
int64_t BoundAt(lua_State* L, int table, int place, int64_t absent) {
  lua_rawgeti(L, table, place);
  int64_t bound = absent;
  if (!lua_isnil(L, -1)) {
    TORCH_CHECK_VALUE(lua_type(L, -1) == LUA_TNUMBER, "index: a slice is {first, end, step}, got ",
                      DescribeValue(L, lua_gettop(L)), " in it");
    const double number = lua_tonumber(L, -1);
    bound = std::isinf(number) ? (number > 0 ? std::numeric_limits<int64_t>::max()
                                             : std::numeric_limits<int64_t>::min())
                               : WholeNumber(L, lua_gettop(L));
  }
  lua_pop(L, 1);
  return bound;
}

TensorIndex Slice(lua_State* L, int table) {
  const size_t size = lua_objlen(L, table);
  TORCH_CHECK_VALUE(size <= 3, "index: a slice is {first, end, step}, got ", size, " numbers");
  const int64_t first = BoundAt(L, table, 1, 0);
  const int64_t end = BoundAt(L, table, 2, std::numeric_limits<int64_t>::max());
  const int64_t step = BoundAt(L, table, 3, 1);
  TORCH_CHECK_VALUE(step > 0, "index: expected a step from 1, got ", step);
  return at::indexing::Slice(first, end, step);
}

// Converts one entry of an index list, which is the index for one dim.
TensorIndex Entry(lua_State* L, int at) {
  if (auto* const handle = Class<TensorHandle>::Test(L, at); handle != nullptr)
    return Value<at::Tensor>::Read(L, at);
  switch (lua_type(L, at)) {
    case LUA_TNUMBER:
      return WholeNumber(L, at);
    case LUA_TTABLE:
      return Slice(L, at);
    case LUA_TLIGHTUSERDATA:
      return at::indexing::None;
    case LUA_TSTRING:
      if (absl::string_view(lua_tostring(L, at)) == "...") return at::indexing::Ellipsis;
      break;
    default:
      break;
  }
  TORCH_CHECK_VALUE(false,
                    "index: expected a number, {first, end, step}, \"...\", moonring.null or a "
                    "tensor for a dim, got ",
                    DescribeValue(L, at));
}

std::vector<TensorIndex> Entries(lua_State* L, int key) {
  std::vector<TensorIndex> entries;
  if (lua_type(L, key) != LUA_TTABLE) return {Entry(L, key)};
  const size_t size = lua_objlen(L, key);
  TORCH_CHECK_VALUE(size <= kMostDims, "index: ", size, " entries, expected one a dim");
  for (size_t i = 1; i <= size; ++i) {
    lua_rawgeti(L, key, static_cast<int>(i));
    entries.push_back(Entry(L, lua_gettop(L)));
    lua_pop(L, 1);
  }
  return entries;
}

}  // namespace

int PushIndexed(lua_State* L, int index, int key) {
  const at::Tensor x = Value<at::Tensor>::Read(L, index);
  if (lua_type(L, key) == LUA_TNUMBER) {  // fast path for the most frequent case
    TORCH_CHECK_VALUE(x.dim() > 0, "index: a tensor of shape [] has no rows");
    return Value<at::Tensor>::Push(L, x.select(0, WholeNumber(L, key)));
  }
  const std::vector<TensorIndex> entries = Entries(L, key);
  return Value<at::Tensor>::Push(L, entries.empty() ? x.alias() : x.index(entries));
}

void WriteIndexed(lua_State* L, int index, int key, int value) {
  at::Tensor x = Value<at::Tensor>::Read(L, index);
  CheckWrite(L, x, "x[..] = v");
  std::vector<TensorIndex> entries = Entries(L, key);
  if (entries.empty()) entries.push_back(at::indexing::Ellipsis);
  static const ArgumentRule kWritten{.name = "value", .kind = ArgumentKind::kTensor};
  TORCH_CHECK_VALUE(!lua_isnil(L, value) && FitOf(L, value, kWritten) != Fit::kNo,
                    "x[..] = v: expected a tensor or a number, got ", DescribeValue(L, value));
  const at::Tensor from = ReadArgument(L, value, kWritten).toTensor();
  x.index_put_(entries, from);
}

}  // namespace moonring::lua
