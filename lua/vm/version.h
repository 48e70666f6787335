#ifndef MOONRING_LUA_VM_VERSION_H_
#define MOONRING_LUA_VM_VERSION_H_

namespace moonring::lua {

extern const char kVersion[];  // Moonring's version, from version.bzl

}  // namespace moonring::lua

#endif  // MOONRING_LUA_VM_VERSION_H_
