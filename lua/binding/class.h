#ifndef MOONRING_LUA_BINDING_CLASS_H_
#define MOONRING_LUA_BINDING_CLASS_H_

// C++ objects as Lua userdata, called handles. A handle shares ownership of its object
// (shared_ptr). Closing a handle releases its share at once; a closed handle supports only tostring
// and a repeated close. Example of a class:
//
//   Class<comm::Mesh>::Register(L, "Mesh", {
//       {"sp_rank", Bind<[](comm::Mesh& mesh) { return mesh.sp_rank(); }>},
//       {"__tostring", Bind<[](comm::Mesh& mesh) { return mesh.DebugString(); }>},
//   });
//   Class<comm::Mesh>::Push(L, mesh);                  // pushes a handle; nil for a null pointer
//   Bind<[](comm::Mesh& mesh) { .. }>                  // the object, valid during the call,
//   Bind<[](std::shared_ptr<comm::Mesh> mesh) { .. }>  // or shared, for a function that stores it
//
// Every class has the method `close`, which may be called repeatedly.

#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <lua.hpp>

#include "absl/strings/str_cat.h"
#include "lua/binding/guard.h"
#include "lua/binding/stack.h"
#include "lua/binding/value_error.h"

namespace moonring::lua {

template <typename T>
class Class {
 public:
  using Handle = std::shared_ptr<T>;

  static void Register(lua_State* L, const char* name,
                       std::initializer_list<NamedFunction> methods) {
    lua_pushlightuserdata(L, Key());
    lua_newtable(L);
    lua_pushstring(L, name);
    lua_setfield(L, -2, "__name");
    lua_pushcfunction(L, &Collect);
    lua_setfield(L, -2, "__gc");
    NameFunction(L, &Close, absl::StrCat(name, ":close").c_str());
    lua_pushcfunction(L, &Close);
    lua_setfield(L, -2, "close");
    lua_pushcfunction(L, &ToString);
    lua_setfield(L, -2, "__tostring");
    for (const auto& [method, bound] : methods) {
      NameFunction(L, bound.function, MethodName(name, method).c_str());
      lua_pushcfunction(L, bound.function);
      // The function ToString also handles closed handles, so it replaces the bound __tostring.
      if (std::strcmp(method, "__tostring") == 0) lua_pushcclosure(L, &ToString, 1);
      lua_setfield(L, -2, method);
    }
    SetIndex(L);
    lua_pushvalue(L, -1);
    ListClass(L, name);
    lua_rawset(L, LUA_REGISTRYINDEX);
  }

  static int Push(lua_State* L, Handle object) {
    if (object == nullptr) return lua_pushnil(L), 1;
    void* memory = lua_newuserdata(L, sizeof(Handle));
    new (memory) Handle(std::move(object));
    PushMetatable(L);
    lua_setmetatable(L, -2);
    return 1;
  }

  // Returns the handle at `index`, or null if the value has another type.
  static Handle* Test(lua_State* L, int index) {
    void* memory = lua_touserdata(L, index);
    if (memory == nullptr || !lua_getmetatable(L, index)) return nullptr;
    PushMetatable(L);
    const bool same = lua_rawequal(L, -1, -2) != 0;
    lua_pop(L, 2);
    return same ? static_cast<Handle*>(memory) : nullptr;
  }

  // Pushes the metatable that all handles of the class share; its __index contains the methods.
  static void PushClass(lua_State* L) { PushMetatable(L); }

  static bool IsOpen(lua_State* L, int index) {
    const Handle* handle = Test(L, index);
    return handle != nullptr && *handle != nullptr;
  }

  static std::string Name(lua_State* L) {
    PushMetatable(L);
    lua_getfield(L, -1, "__name");
    std::string name = lua_tostring(L, -1);
    lua_pop(L, 2);
    return name;
  }

  // Returns a shared pointer that the caller must keep while it uses the object, because Lua code
  // that runs meanwhile may close the handle.
  static Handle Read(lua_State* L, int index) {
    Handle* handle = Test(L, index);
    if (handle == nullptr) RefuseValue(L, index, Name(L));
    if (*handle == nullptr) throw ValueError(index, absl::StrCat("this ", Name(L), " is closed"));
    return *handle;
  }

 private:
  static void* Key() {
    static const char key = 0;  // only its address is used
    return const_cast<char*>(&key);
  }
  static void PushMetatable(lua_State* L) {
    lua_pushlightuserdata(L, Key());
    lua_rawget(L, LUA_REGISTRYINDEX);
  }
  // A method's name in messages: "Mesh:rank", and "operator + of Tensor" for __add.
  static std::string MethodName(const char* name, const char* method) {
    static constexpr std::pair<const char*, const char*> kOperators[] = {
        {"__add", "+"}, {"__sub", "-"}, {"__mul", "*"},  {"__div", "/"}, {"__pow", "^"},
        {"__mod", "%"}, {"__unm", "-"}, {"__len", "#"},  {"__eq", "=="}, {"__lt", "<"},
        {"__le", "<="}};
    for (const auto& [event, symbol] : kOperators) {
      if (std::strcmp(method, event) == 0) return absl::StrCat("operator ", symbol, " of ", name);
    }
    return absl::StrCat(name, ":", method);
  }
  // Sets __index to a separate table of methods. If __index were the metatable itself, a script
  // could reach the metatable as x.__index and add a finalizer that never returns.
  static void SetIndex(lua_State* L) {
    lua_newtable(L);
    lua_pushnil(L);
    while (lua_next(L, -3) != 0) {
      if (lua_type(L, -2) == LUA_TSTRING && std::strncmp(lua_tostring(L, -2), "__", 2) != 0) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, -4);
      } else {
        lua_pop(L, 1);
      }
    }
    lua_setfield(L, -2, "__index");
  }
  // Stores registry["moonring.classes"][name] = metatable, for a test that compares the
  // documentation with the registered classes.
  static void ListClass(lua_State* L, const char* name) {
    lua_getfield(L, LUA_REGISTRYINDEX, "moonring.classes");
    if (lua_isnil(L, -1)) {
      lua_pop(L, 1);
      lua_newtable(L);
      lua_pushvalue(L, -1);
      lua_setfield(L, LUA_REGISTRYINDEX, "moonring.classes");
    }
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, name);
    lua_pop(L, 2);
  }
  // Finalizer (__gc). Resets the handle to null and does not destroy it, because a script can reach
  // this function and call it twice.
  static int Collect(lua_State* L) {
    if (Handle* handle = Test(L, 1)) handle->reset();
    return 0;
  }
  static int Close(lua_State* L) {
    if (HasMoreArguments(L, 1)) RefuseArguments(L, 1);
    Handle* handle = Test(L, 1);
    if (handle == nullptr) RefuseValue(L, 1, Name(L));
    handle->reset();
    return 0;
  }
  static int ToString(lua_State* L) {
    Handle* handle = Test(L, 1);
    if (handle == nullptr || *handle == nullptr)
      return Value<std::string>::Push(L, absl::StrCat(Name(L), " (closed)"));
    if (lua_CFunction describe = lua_tocfunction(L, lua_upvalueindex(1))) return describe(L);
    return Value<std::string>::Push(L, Name(L));
  }
};

// A function parameter that receives a handle's object: shared_ptr<T>, or T& if the function does
// not store the object.
template <typename T>
struct Value<std::shared_ptr<T>> {
  static std::shared_ptr<T> Read(lua_State* L, int index) {
    return Class<std::remove_const_t<T>>::Read(L, index);
  }
  static int Push(lua_State* L, std::shared_ptr<T> object) {
    return Class<std::remove_const_t<T>>::Push(
        L, std::const_pointer_cast<std::remove_const_t<T>>(std::move(object)));
  }
};

template <typename T>
struct Value<std::unique_ptr<T>> {
  static int Push(lua_State* L, std::unique_ptr<T> object) {
    return Class<T>::Push(L, std::shared_ptr<T>(std::move(object)));
  }
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_CLASS_H_
