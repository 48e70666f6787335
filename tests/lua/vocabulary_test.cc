// Tokenizers with added tokens compared with LLaMA-Factory's: one test for each section of
// vocabulary_test.lua.

#include <filesystem>
#include <string>

#include "gtest/gtest.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

class Vocabulary : public ::testing::TestWithParam<const char*> {};

TEST_P(Vocabulary, IsLlamaFactorys) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  const fs::path root = assets->root();
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  const ScriptError error =
      vm.Run((root / "tests/lua/vocabulary_test.lua").string(), "@vocabulary_test.lua",
             {GetParam(), (root / "tests/golden").string()});
  EXPECT_EQ(error.message, "");
}

INSTANTIATE_TEST_SUITE_P(Sections, Vocabulary, ::testing::Values("equal", "files"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace moonring::lua
