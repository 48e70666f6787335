// Chat templates used from scripts: one test for each section of templates_test.lua.

#include <filesystem>
#include <string>

#include "gtest/gtest.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

class Templates : public ::testing::TestWithParam<const char*> {};

TEST_P(Templates, AreLlamaFactorys) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  const fs::path root = assets->root();
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  const ScriptError error =
      vm.Run((root / "tests/lua/templates_test.lua").string(), "@templates_test.lua",
             {GetParam(), (root / "tests/golden/templates").string(), ::testing::TempDir()});
  EXPECT_EQ(error.message, "");
}

INSTANTIATE_TEST_SUITE_P(Sections, Templates,
                         ::testing::Values("equal", "own", "settled", "jinja", "errors"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace moonring::lua
