// Every key acts, is refused or says that it has no effect (lua/moonring/config/keys):
// every_key_test.lua says what it looks at.

#include <string>

#include "gtest/gtest.h"
#include "lua/assets.h"
#include "lua/vm.h"

namespace moonring::lua {
namespace {

TEST(EveryKey, ActsOrIsRefusedOrSaysThatItHasNoEffect) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  const std::string root = assets->root();
  Vm vm(Host{.assets = *assets});
  const ScriptError error =
      vm.Run(root + "/tests/lua/every_key_test.lua", "@every_key_test.lua",
             {root + "/tests/golden/llamafactory_keys/keys.json"});
  EXPECT_EQ(error.message, "");
}

}  // namespace
}  // namespace moonring::lua
