// Runs prompt_parts_test.lua: the components of the interactive prompt.

#include <filesystem>

#include "gtest/gtest.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

TEST(PromptParts, DoWhatTheySay) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  const fs::path root = assets->root();
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  const ScriptError error = vm.Run((root / "tests/lua/prompt_parts_test.lua").string(),
                                   "@prompt_parts_test.lua", {::testing::TempDir()});
  EXPECT_EQ(error.message + error.traceback, "");
}

}  // namespace
}  // namespace moonring::lua
