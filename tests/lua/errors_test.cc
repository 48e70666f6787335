// Runs errors_test.lua: status codes and texts of errors in Lua.

#include <filesystem>

#include "gtest/gtest.h"
#include "lua/assets.h"
#include "lua/vm.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

TEST(Errors, AreReadAsCodeAndWords) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  const fs::path root = assets->root();
  Vm vm(Host{.assets = *assets});
  const ScriptError error =
      vm.Run((root / "tests/lua/errors_test.lua").string(), "@errors_test.lua", {});
  EXPECT_EQ(error.message, "");
}

}  // namespace
}  // namespace moonring::lua
