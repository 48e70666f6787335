#ifndef MOONRING_LUA_BINDING_NATIVE_STACK_H_
#define MOONRING_LUA_BINDING_NATIVE_STACK_H_

// Checks how much native stack the calling thread has left. LuaJIT limits the depth of Lua calls,
// but not of alternating Lua and C calls (string.gsub with a function that calls string.gsub ...).
// Such recursion would overflow the stack and crash the whole process, including an application
// that embeds a runtime.

namespace moonring::lua {

// Whether the remaining stack is less than a quarter of it, or less than 256 KiB of a large stack.
// Takes a few nanoseconds.
bool NativeStackIsShort();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_NATIVE_STACK_H_
