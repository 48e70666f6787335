// Runs advantages_test.lua: advantages of rewards (lua/moonring/run/rollouts/advantages.lua)
// compared with TRL's trainers.

#include <string>

#include "gtest/gtest.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

TEST(Advantages, AreTrls) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  const ScriptError error =
      vm.Run(assets->root() + "/tests/lua/advantages_test.lua", "@advantages_test.lua",
             {assets->root() + "/tests/golden/objectives/policy_gradient.json"});
  EXPECT_EQ(error.message, "");
}

}  // namespace
}  // namespace moonring::lua
