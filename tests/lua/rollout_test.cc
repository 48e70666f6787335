// Runs rollout_test.lua: model:rollout called from a script.

#include <string>

#include "gtest/gtest.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

TEST(Rollout, FromAScript) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  const ScriptError error =
      vm.Run(assets->root() + "/tests/lua/rollout_test.lua", "@rollout_test.lua",
             {assets->root() + "/tests/golden/stages/model"});
  EXPECT_EQ(error.message, "");
}

}  // namespace
}  // namespace moonring::lua
