// Runs errors_test.lua: status codes and texts of errors in Lua.

#include <filesystem>

#include "gtest/gtest.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

TEST(Errors, AreReadAsCodeAndWords) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  const fs::path root = assets->root();
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  const ScriptError error =
      vm.Run((root / "tests/lua/errors_test.lua").string(), "@errors_test.lua", {});
  EXPECT_EQ(error.message, "");
}

}  // namespace
}  // namespace moonring::lua
