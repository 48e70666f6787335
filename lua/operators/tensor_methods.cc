#include "lua/operators/tensor_methods.h"

#include <new>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status/torch_status.h"
#include "lua/binding/class.h"
#include "lua/binding/stack.h"
#include "lua/binding/tensor.h"
#include "lua/operators/call.h"
#include "lua/operators/indexing.h"
#include "lua/operators/sandbox_operators.h"
#include "lua/operators/schemas.h"
#include "lua/operators/values.h"

namespace moonring::lua {
namespace {

Operators& OperatorsAt(lua_State* L, int upvalue) {
  return *static_cast<Operators*>(lua_touserdata(L, lua_upvalueindex(upvalue)));
}

int CollectOperators(lua_State* L) {
  static_cast<Operators*>(lua_touserdata(L, 1))->~Operators();
  return 0;
}

// Pushes the object with the operators of a Lua state. Functions that use it have it as an upvalue,
// which keeps it alive.
void PushOperators(lua_State* L, bool confined) {
  new (lua_newuserdata(L, sizeof(Operators)))
      Operators(confined ? SandboxOperators() : std::vector<absl::string_view>());
  lua_newtable(L);
  lua_pushcfunction(L, &CollectOperators);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
}

absl::string_view NameAt(lua_State* L, int index) {
  size_t length = 0;
  const char* const text = lua_tolstring(L, index, &length);
  return {text, length};
}

[[noreturn]] void Unknown(const Operators& operators, absl::string_view what,
                          absl::string_view name) {
  throw base::StatusError(
      absl::InvalidArgumentError(absl::StrCat(what, " '", name, "'", operators.DidYouMean(name))));
}

// The metamethod of `ops`, called with (table, name): creates the function of an operator and
// stores it in the table. Upvalue: the operators.
int LookUp(lua_State* L) {
  Operators& operators = OperatorsAt(L, 1);
  if (lua_type(L, 2) != LUA_TSTRING) return lua_pushnil(L), 1;
  const Operator* const op = operators.Find(NameAt(L, 2));
  if (op == nullptr) Unknown(operators, "ops: there is no operator", NameAt(L, 2));
  PushOperator(L, op, /*as_method=*/false);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -2);
  lua_rawset(L, 1);
  return 1;
}

// The metamethod x[key] of tensors: a method if the key is a string, else tensor indexing.
// Upvalues: the table of methods, the operators.
int IndexTensor(lua_State* L) {
  if (lua_type(L, 2) != LUA_TSTRING) return PushIndexed(L, 1, 2);
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(1));
  if (!lua_isnil(L, -1)) return 1;
  Operators& operators = OperatorsAt(L, 2);
  const absl::string_view name = NameAt(L, 2);
  if (absl::StartsWith(name, "__")) return lua_pushnil(L), 1;  // Lua's own metamethods
  const Operator* const op = operators.Find(name);
  if (op == nullptr) Unknown(operators, "a tensor has no", name);
  PushOperator(L, op, /*as_method=*/true);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -2);
  lua_rawset(L, lua_upvalueindex(1));
  return 1;
}

int AssignTensor(lua_State* L) {
  TORCH_CHECK_VALUE(lua_type(L, 2) != LUA_TSTRING, "a tensor has no field '", NameAt(L, 2),
                    "' to set; x[..] = v writes elements");
  WriteIndexed(L, 1, 2, 3);
  return 0;
}

int Names(lua_State* L) {
  if (HasMoreArguments(L, 0)) RefuseArguments(L, 0);
  return Value<std::vector<std::string>>::Push(L, OperatorsAt(L, 1).Names());
}

int Schemas(lua_State* L) {
  if (HasMoreArguments(L, 1)) RefuseArguments(L, 1);
  Operators& operators = OperatorsAt(L, 1);
  const std::string name = Value<std::string>::Read(L, 1);
  const Operator* const op = operators.Find(name);
  if (op == nullptr) Unknown(operators, "ops: there is no operator", name);
  std::vector<std::string> texts;
  for (const Overload& overload : op->overloads) texts.push_back(SchemaText(overload));
  return Value<std::vector<std::string>>::Push(L, texts);
}

// Pushes { names, overloads, left_out }: the number of names, the number of overloads, and for each
// type that Lua cannot represent the number of overloads that need it.
int CountOperators(lua_State* L) {
  if (HasMoreArguments(L, 0)) RefuseArguments(L, 0);
  const Operators::Count count = OperatorsAt(L, 1).CountAll();
  lua_createtable(L, 0, 3);
  lua_pushnumber(L, count.names);
  lua_setfield(L, -2, "names");
  lua_pushnumber(L, count.overloads);
  lua_setfield(L, -2, "overloads");
  Value<std::map<std::string, int>>::Push(L, count.left_out);
  lua_setfield(L, -2, "left_out");
  return 1;
}

// Sets field `name` of the table on top of the stack to `function`, whose upvalue is the object
// with the operators at stack index `operators`.
void SetOver(lua_State* L, int operators, const char* name, lua_CFunction function) {
  NameFunction(L, function, absl::StrCat("moonring.operators.", name).c_str());
  lua_pushvalue(L, operators);
  lua_pushcclosure(L, function, 1);
  lua_setfield(L, -2, name);
}

}  // namespace

void OpenOperators(lua_State* L, bool confined) {
  OpenValues(L);
  PushOperators(L, confined);
  const int operators = lua_gettop(L);

  Class<TensorHandle>::PushClass(L);
  lua_getfield(L, -1, "__index");  // the methods
  lua_pushvalue(L, operators);
  lua_pushcclosure(L, &IndexTensor, 2);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, &AssignTensor);
  lua_setfield(L, -2, "__newindex");  // in the tensor class's metatable: x[..] = v
  lua_pop(L, 1);

  lua_createtable(L, 0, 3);  // the module
  lua_newtable(L);           // ops
  lua_newtable(L);
  lua_pushvalue(L, operators);
  lua_pushcclosure(L, &LookUp, 1);
  lua_setfield(L, -2, "__index");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, "ops");
  SetOver(L, operators, "names", &Names);
  SetOver(L, operators, "schemas", &Schemas);
  SetOver(L, operators, "count", &CountOperators);
  lua_remove(L, operators);
}

}  // namespace moonring::lua
