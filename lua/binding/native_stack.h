#ifndef MOONRING_LUA_BINDING_NATIVE_STACK_H_
#define MOONRING_LUA_BINDING_NATIVE_STACK_H_

// How much is left of the stack of the thread that calls. LuaJIT bounds how deep Lua functions call
// each other, not how deep Lua and C do in turn (string.gsub with a function that calls string.gsub
// ...): that ends in a crash, of the whole process that a runtime is embedded in.

namespace moonring::lua {

// Whether less than a quarter of the stack, or 256 KiB of a large one, is left. Some nanoseconds.
bool NativeStackIsShort();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_NATIVE_STACK_H_
