// Runs loss_scale_test.lua: the loss scale of fp16 (lua/moonring/run/loss_scale.lua) compared with
// torch.amp.GradScaler.

#include <string>

#include "gtest/gtest.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

TEST(LossScale, IsTorchsScalers) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  const ScriptError error =
      vm.Run(assets->root() + "/tests/lua/loss_scale_test.lua", "@loss_scale_test.lua",
             {assets->root() + "/tests/golden/fp16/scaler.json"});
  EXPECT_EQ(error.message, "");
}

}  // namespace
}  // namespace moonring::lua
