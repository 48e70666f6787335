// Keys that change nothing say so (lua/moonring/config/init.lua): idle_keys_test.lua says what it
// looks at.

#include <string>

#include "gtest/gtest.h"
#include "lua/assets.h"
#include "lua/vm.h"

namespace moonring::lua {
namespace {

TEST(IdleKeys, SayThatTheyChangeNothing) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  Vm vm(Host{.assets = *assets});
  const ScriptError error =
      vm.Run(assets->root() + "/tests/lua/idle_keys_test.lua", "@idle_keys_test.lua", {});
  EXPECT_EQ(error.message, "");
}

}  // namespace
}  // namespace moonring::lua
