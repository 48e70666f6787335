// Predictions of memory (memory.lua and related modules): one test for each section of
// memory_test.lua.

#include <filesystem>
#include <string>

#include "gtest/gtest.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

class Memory : public ::testing::TestWithParam<const char*> {};

TEST_P(Memory, IsPredicted) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  const fs::path root = assets->root();
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  const ScriptError error =
      vm.Run((root / "tests/lua/memory_test.lua").string(), "@memory_test.lua",
             {GetParam(), (root / "tests/golden/model/gqa_tied").string()});
  EXPECT_EQ(error.message, "");
}

INSTANTIATE_TEST_SUITE_P(Sections, Memory,
                         ::testing::Values("attention", "gpu", "gpus", "report", "states",
                                           "moments", "blocks", "activations", "automatic",
                                           "growth", "longest", "shifted", "facts", "offload",
                                           "plans", "mixing", "judgements", "published", "sizes"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace moonring::lua
