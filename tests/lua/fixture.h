#ifndef MOONRING_TESTS_LUA_FIXTURE_H_
#define MOONRING_TESTS_LUA_FIXTURE_H_

// A Lua virtual machine for short test scripts. A failed assertion in a script is an error, so a
// script that passes has no message:
//
//   EXPECT_EQ(Run("assert(1 + 1 == 2)").message, "");

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lua/binding/guard.h"
#include "lua/binding/stack.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"

namespace moonring::lua {

class VmTest : public ::testing::Test {
 protected:
  // Runs `text` as a script named script.lua. All calls share one Lua state.
  ScriptError Run(const std::string& text, const std::vector<std::string>& arguments = {}) {
    const std::string path = ::testing::TempDir() + "/script.lua";
    std::ofstream(path) << text;
    return vm().Run(path, "@script.lua", arguments);
  }

  Vm& vm() {
    if (vm_ == nullptr) vm_ = std::make_unique<Vm>(std::move(host_));
    return *vm_;
  }

  // The settings of the virtual machine; change them before its first use.
  Host& host() { return host_; }

  // Defines a global function, under a name that the guard of globals permits.
  void Define(const char* name, Bound bound) { Define(name, bound.function); }
  void Define(const char* name, lua_CFunction function) {
    NameFunction(vm().state(), function, (std::string("test.") + name).c_str());
    lua_pushcfunction(vm().state(), function);
    lua_setglobal(vm().state(), name);
  }

 private:
  static Host NewHost() {
    auto assets = Assets::Find("test");
    if (!assets.ok()) throw std::runtime_error(std::string(assets.status().message()));
    return Host{.assets = *std::move(assets), .libraries = AllLibraries()};
  }

  Host host_ = NewHost();
  std::unique_ptr<Vm> vm_;
};

}  // namespace moonring::lua

#endif  // MOONRING_TESTS_LUA_FIXTURE_H_
