#include "lua/operators/values.h"

#include <cmath>
#include <optional>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lua/binding/class.h"
#include "lua/binding/dtype_names.h"
#include "lua/binding/stack.h"
#include "lua/binding/tensor.h"
#include "lua/binding/value_error.h"

namespace moonring::lua {
namespace {

constexpr int kCdata = 10;                       // LUA_TCDATA, which is not in LuaJIT's headers
constexpr size_t kMostListed = size_t{1} << 24;  // most elements in a list of sizes, tensors, ..

const char kReadCdata = 0, kFinalizers = 0;  // their addresses are registry keys

// Lua function that converts a cdata: 64-bit integers to text, floats to a Lua number.
constexpr char kCdataReader[] = R"lua(
local ffi = require "ffi"
local istype, int64, uint64 = ffi.istype, ffi.typeof "int64_t", ffi.typeof "uint64_t"
local double, float = ffi.typeof "double", ffi.typeof "float"
local function read(value)
  if istype(int64, value) or istype(uint64, value) then
    return (tostring(value):gsub("U?LL", ""))
  end
  if istype(double, value) or istype(float, value) then return tonumber(value) end
end
return read, ffi.gc
)lua";

std::optional<at::Scalar> CdataNumber(lua_State* L, int index) {
  if (index < 0) index = lua_gettop(L) + 1 + index;
  lua_pushlightuserdata(L, const_cast<char*>(&kReadCdata));
  lua_rawget(L, LUA_REGISTRYINDEX);
  lua_pushvalue(L, index);
  lua_call(L, 1, 1);
  std::optional<at::Scalar> number;
  if (lua_type(L, -1) == LUA_TNUMBER) {
    number = at::Scalar(lua_tonumber(L, -1));
  } else if (lua_type(L, -1) == LUA_TSTRING) {
    number = at::Scalar(static_cast<int64_t>(std::strtoll(lua_tostring(L, -1), nullptr, 10)));
  }
  lua_pop(L, 1);
  return number;
}

std::optional<at::Scalar> NumberAt(lua_State* L, int index) {
  switch (lua_type(L, index)) {
    case LUA_TNUMBER: {
      const double number = lua_tonumber(L, index);
      return IsWhole(number) ? at::Scalar(static_cast<int64_t>(number)) : at::Scalar(number);
    }
    case LUA_TBOOLEAN:
      return at::Scalar(lua_toboolean(L, index) != 0);
    case kCdata:
      return CdataNumber(L, index);
    default:
      return std::nullopt;
  }
}

std::optional<int64_t> Reduction(absl::string_view word) {
  if (word == "none") return 0;
  if (word == "mean") return 1;
  if (word == "sum") return 2;
  return std::nullopt;
}

std::optional<at::Layout> LayoutNamed(absl::string_view word) {
  if (word == "strided") return at::kStrided;
  if (word == "sparse_coo") return at::kSparse;
  if (word == "sparse_csr") return at::kSparseCsr;
  return std::nullopt;
}

std::optional<at::MemoryFormat> FormatNamed(absl::string_view word) {
  if (word == "contiguous_format") return at::MemoryFormat::Contiguous;
  if (word == "preserve_format") return at::MemoryFormat::Preserve;
  if (word == "channels_last") return at::MemoryFormat::ChannelsLast;
  if (word == "channels_last_3d") return at::MemoryFormat::ChannelsLast3d;
  return std::nullopt;
}

std::optional<at::Device> DeviceNamed(absl::string_view word) {
  if (word != "cpu" && word != "meta" && word.substr(0, 4) != "cuda") return std::nullopt;
  try {
    return at::Device(std::string(word));
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

absl::string_view Word(lua_State* L, int index) {
  size_t length = 0;
  const char* const text = lua_tolstring(L, index, &length);
  return {text, length};
}

Fit FitOfText(lua_State* L, int index, const ArgumentRule& rule) {
  const absl::string_view word = Word(L, index);
  bool fits = false;
  switch (rule.kind) {
    case ArgumentKind::kString:
      fits = true;
      break;
    case ArgumentKind::kDtype:
      fits = FindDtype(word).has_value();
      break;
    case ArgumentKind::kDevice:
      fits = DeviceNamed(word).has_value();
      break;
    case ArgumentKind::kLayout:
      fits = LayoutNamed(word).has_value();
      break;
    case ArgumentKind::kMemoryFormat:
      fits = FormatNamed(word).has_value();
      break;
    case ArgumentKind::kInt:
      fits = rule.name == "reduction" && Reduction(word).has_value();
      break;
    default:
      break;
  }
  return fits ? Fit::kExact : Fit::kNo;
}

// Rates how well a Lua value fits one element of a list argument, or an argument that is not a
// list.
Fit FitOfOne(lua_State* L, int index, const ArgumentRule& rule) {
  const int type = lua_type(L, index);
  if (type == LUA_TSTRING) return FitOfText(L, index, rule);
  if (rule.kind == ArgumentKind::kTensor) {
    if (Class<TensorHandle>::Test(L, index) != nullptr) return Fit::kExact;
    return type == LUA_TNUMBER || type == kCdata ? Fit::kConverted : Fit::kNo;
  }
  if (type == LUA_TBOOLEAN) {
    return rule.kind == ArgumentKind::kBool || rule.kind == ArgumentKind::kScalar ? Fit::kExact
                                                                                  : Fit::kNo;
  }
  if (type != LUA_TNUMBER && type != kCdata) return Fit::kNo;
  switch (rule.kind) {
    case ArgumentKind::kFloat:
    case ArgumentKind::kScalar:
      return Fit::kExact;
    case ArgumentKind::kInt:
    case ArgumentKind::kGenerator: {
      const std::optional<at::Scalar> number = NumberAt(L, index);
      return number.has_value() && number->isIntegral(false) ? Fit::kExact : Fit::kNo;
    }
    default:
      return Fit::kNo;
  }
}

// Returns the length of a list up to its last non-nil element. If `holes`, elements in between may
// be nil.
size_t SizeOfList(lua_State* L, int index, bool holes) {
  size_t size = lua_objlen(L, index);
  if (!holes) return size;
  for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TNUMBER) continue;
    const double key = lua_tonumber(L, -2);
    if (key >= 1 && key < static_cast<double>(kMostListed))
      size = std::max(size, static_cast<size_t>(key));
  }
  return size;
}

Fit FitOfList(lua_State* L, int index, const ArgumentRule& rule) {
  if (lua_type(L, index) != LUA_TTABLE)
    return rule.fixed_size > 0 ? FitOfOne(L, index, rule) : Fit::kNo;
  if (!rule.optional_elements && !ListFault(L, index).empty()) return Fit::kNo;
  Fit fit = Fit::kExact;
  const size_t size = SizeOfList(L, index, rule.optional_elements);
  if (size > kMostListed) return Fit::kNo;
  luaL_checkstack(L, 2, "an operator's list");
  for (size_t i = 1; i <= size && fit != Fit::kNo; ++i) {
    lua_rawgeti(L, index, static_cast<int>(i));
    const Fit one = lua_isnil(L, -1) ? (rule.optional_elements ? Fit::kExact : Fit::kNo)
                                     : FitOfOne(L, lua_gettop(L), rule);
    if (one != Fit::kExact) fit = one;
    lua_pop(L, 1);
  }
  return fit;
}

at::Tensor ReadTensor(lua_State* L, int index, const ArgumentRule& rule) {
  if (auto* const handle = Class<TensorHandle>::Test(L, index)) {
    TORCH_CHECK_VALUE(*handle != nullptr && (*handle)->tensor.defined(), "argument '", rule.name,
                      "': this tensor is closed (its scope has ended; x:keep() moves it out)");
    return (*handle)->tensor;
  }
  return at::native::wrapped_scalar_tensor(*NumberAt(L, index));
}

int64_t ReadInt(lua_State* L, int index) {
  if (lua_type(L, index) == LUA_TSTRING) return *Reduction(Word(L, index));
  return NumberAt(L, index)->toLong();
}

c10::IValue ReadOne(lua_State* L, int index, const ArgumentRule& rule) {
  switch (rule.kind) {
    case ArgumentKind::kTensor:
      return ReadTensor(L, index, rule);
    case ArgumentKind::kInt:
      return ReadInt(L, index);
    case ArgumentKind::kFloat:
      return NumberAt(L, index)->toDouble();
    case ArgumentKind::kBool:
      return lua_toboolean(L, index) != 0;
    case ArgumentKind::kString:
      return std::string(Word(L, index));
    case ArgumentKind::kScalar:
      return *NumberAt(L, index);
    case ArgumentKind::kDtype:
      return *FindDtype(Word(L, index));
    case ArgumentKind::kDevice:
      return *DeviceNamed(Word(L, index));
    case ArgumentKind::kLayout:
      return *LayoutNamed(Word(L, index));
    case ArgumentKind::kMemoryFormat:
      return *FormatNamed(Word(L, index));
    case ArgumentKind::kGenerator:
      return at::Generator(
          at::detail::createCPUGenerator(static_cast<uint64_t>(ReadInt(L, index))));
  }
  return {};
}

// Reads a list; `read` converts one element at the top of the stack.
template <typename T, typename Read>
c10::IValue ReadList(lua_State* L, int index, const ArgumentRule& rule, const Read& read) {
  c10::List<T> list;
  if (lua_type(L, index) != LUA_TTABLE) {  // one number for all elements, as in PyTorch for int[2]
    for (int i = 0; i < rule.fixed_size; ++i) list.push_back(read(index));
    return list;
  }
  const size_t size = SizeOfList(L, index, rule.optional_elements);
  list.reserve(size);
  for (size_t i = 1; i <= size; ++i) {
    lua_rawgeti(L, index, static_cast<int>(i));
    list.push_back(read(lua_gettop(L)));
    lua_pop(L, 1);
  }
  return list;
}

void PushScalar(lua_State* L, const at::Scalar& number) {
  if (number.isBoolean()) return lua_pushboolean(L, number.toBool());
  if (!number.isComplex()) return lua_pushnumber(L, number.toDouble());
  const c10::complex<double> value = number.toComplexDouble();
  lua_createtable(L, 2, 0);
  lua_pushnumber(L, value.real());
  lua_rawseti(L, -2, 1);
  lua_pushnumber(L, value.imag());
  lua_rawseti(L, -2, 2);
}

absl::string_view NameOfKind(ArgumentKind kind) {
  switch (kind) {
    case ArgumentKind::kTensor:
      return "Tensor";
    case ArgumentKind::kInt:
      return "int";
    case ArgumentKind::kFloat:
      return "float";
    case ArgumentKind::kBool:
      return "bool";
    case ArgumentKind::kString:
      return "str";
    case ArgumentKind::kScalar:
      return "number";
    case ArgumentKind::kDtype:
      return "dtype ('fp32', ..)";
    case ArgumentKind::kDevice:
      return "device ('cpu', 'cuda', ..)";
    case ArgumentKind::kLayout:
      return "layout ('strided', ..)";
    case ArgumentKind::kMemoryFormat:
      return "memory format ('contiguous_format', ..)";
    case ArgumentKind::kGenerator:
      return "seed";
  }
  return "";
}

}  // namespace

void OpenValues(lua_State* L) {
  if (luaL_loadbuffer(L, kCdataReader, sizeof(kCdataReader) - 1, "=moonring/cdata") != 0)
    lua_error(L);
  lua_call(L, 0, 2);
  // Keeps LuaJIT's table of finalizers alive. Otherwise only ffi.gc references it, which a sandbox
  // removes, but lua_close still uses the table.
  lua_pushlightuserdata(L, const_cast<char*>(&kFinalizers));
  lua_insert(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
  lua_pushlightuserdata(L, const_cast<char*>(&kReadCdata));
  lua_insert(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

Fit FitOf(lua_State* L, int index, const ArgumentRule& rule) {
  return rule.is_list ? FitOfList(L, index, rule) : FitOfOne(L, index, rule);
}

c10::IValue ReadArgument(lua_State* L, int index, const ArgumentRule& rule) {
  if (!rule.is_list) return ReadOne(L, index, rule);
  switch (rule.kind) {
    case ArgumentKind::kInt:
      return ReadList<int64_t>(L, index, rule, [&](int at) { return ReadInt(L, at); });
    case ArgumentKind::kFloat:
      return ReadList<double>(L, index, rule, [&](int at) { return NumberAt(L, at)->toDouble(); });
    case ArgumentKind::kBool:
      return ReadList<bool>(L, index, rule, [&](int at) { return lua_toboolean(L, at) != 0; });
    case ArgumentKind::kString:
      return ReadList<std::string>(L, index, rule,
                                   [&](int at) { return std::string(Word(L, at)); });
    case ArgumentKind::kScalar:
      return ReadList<at::Scalar>(L, index, rule, [&](int at) { return *NumberAt(L, at); });
    default:
      if (!rule.optional_elements)
        return ReadList<at::Tensor>(L, index, rule,
                                    [&](int at) { return ReadTensor(L, at, rule); });
      return ReadList<std::optional<at::Tensor>>(L, index, rule,
                                                 [&](int at) -> std::optional<at::Tensor> {
                                                   if (lua_isnil(L, at)) return std::nullopt;
                                                   return ReadTensor(L, at, rule);
                                                 });
  }
}

void PushResult(lua_State* L, const c10::IValue& value) {
  if (value.isTensor()) {
    Value<at::Tensor>::Push(L, value.toTensor());
  } else if (value.isNone()) {
    lua_pushnil(L);
  } else if (value.isBool()) {
    lua_pushboolean(L, value.toBool());
  } else if (value.isScalar()) {
    PushScalar(L, value.toScalar());
  } else if (value.isString()) {
    lua_pushlstring(L, value.toStringRef().data(), value.toStringRef().size());
  } else if (value.isList()) {
    const c10::List<c10::IValue> list = value.toList();
    lua_createtable(L, static_cast<int>(list.size()), 0);
    for (size_t i = 0; i < list.size(); ++i) {
      PushResult(L, list.get(i));
      lua_rawseti(L, -2, static_cast<int>(i + 1));
    }
  } else {
    lua_pushstring(L, absl::StrCat("<", value.tagKind(), ">").c_str());
  }
}

std::string DescribeValue(lua_State* L, int index) {
  const char* const type = lua_typename(L, lua_type(L, index));
  if (auto* const handle = Class<TensorHandle>::Test(L, index)) {
    if (*handle == nullptr || !(*handle)->tensor.defined()) return "Tensor (closed)";
    const at::Tensor& tensor = (*handle)->tensor;
    return absl::StrCat("Tensor ", NameOfDtype(tensor.scalar_type()), " [",
                        absl::StrJoin(tensor.sizes(), ", "), "]");
  }
  switch (lua_type(L, index)) {
    case LUA_TNUMBER:
      return absl::StrCat("number ", lua_tonumber(L, index));
    case LUA_TSTRING:
      return absl::StrCat("string '", Word(L, index).substr(0, 40), "'");
    case LUA_TBOOLEAN:
      return lua_toboolean(L, index) != 0 ? "true" : "false";
    case LUA_TTABLE: {
      const std::string fault = ListFault(L, index);
      return fault.empty() ? type : absl::StrCat("table (", fault, ")");
    }
    default:
      return type;
  }
}

std::string DescribeRule(const ArgumentRule& rule) {
  std::string text = rule.is_list ? absl::StrCat("a list of ", NameOfKind(rule.kind))
                                  : std::string(NameOfKind(rule.kind));
  if (rule.is_list && rule.fixed_size > 0) absl::StrAppend(&text, ", or one for all");
  if (rule.optional) absl::StrAppend(&text, ", or nil");
  return text;
}

}  // namespace moonring::lua
