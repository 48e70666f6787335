// Runs prompt_parts_test.lua: the components of the interactive prompt.

#include <filesystem>

#include "gtest/gtest.h"
#include "lua/assets.h"
#include "lua/vm.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

TEST(PromptParts, DoWhatTheySay) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  const fs::path root = assets->root();
  Vm vm(Host{.assets = *assets});
  const ScriptError error = vm.Run((root / "tests/lua/prompt_parts_test.lua").string(),
                                   "@prompt_parts_test.lua", {::testing::TempDir()});
  EXPECT_EQ(error.message + error.traceback, "");
}

}  // namespace
}  // namespace moonring::lua
