#ifndef MOONRING_LUA_BINDING_NATIVE_STACK_H_
#define MOONRING_LUA_BINDING_NATIVE_STACK_H_

// Checks the remaining native stack of the calling thread. LuaJIT limits the depth of Lua calls,
// but not of alternating Lua and C calls (string.gsub with a function that calls string.gsub ...).
// Such recursion would overflow the stack and crash the whole process, including an application
// that embeds a runtime.

namespace moonring::lua {

// Whether less than a quarter of the stack, or less than 256 KiB of a large stack, is left. Takes a
// few nanoseconds.
bool NativeStackIsShort();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_NATIVE_STACK_H_
