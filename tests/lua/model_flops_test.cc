// Runs model_flops_test.lua: the operations that MFU counts (lua/moonring/plan/model_flops.lua).

#include <string>

#include "gtest/gtest.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"
#include "tests/testing/scratch_folder.h"

namespace moonring::lua {
namespace {

TEST(ModelFlops, AreThePublishedFormulas) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  const testing::ScratchFolder folder;
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  const ScriptError error = vm.Run(assets->root() + "/tests/lua/model_flops_test.lua",
                                   "@model_flops_test.lua", {folder.path()});
  EXPECT_EQ(error.message, "");
}

}  // namespace
}  // namespace moonring::lua
