// OpenAI's routes of `moonring serve` over a tiny model, without a network: one test for each
// section of openai_test.lua.

#include <filesystem>
#include <string>

#include "gtest/gtest.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

class OpenaiRoutes : public ::testing::TestWithParam<const char*> {};

TEST_P(OpenaiRoutes, AnswerAsClientsExpect) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  const fs::path root = assets->root();
  const fs::path folder = fs::path(::testing::TempDir()) / GetParam();
  fs::create_directories(folder);
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  const ScriptError error =
      vm.Run((root / "tests/serve/openai/openai_test.lua").string(), "@openai_test.lua",
             {GetParam(), (root / "tests/golden/stages/model").string(), folder.string()});
  EXPECT_EQ(error.message, "");
}

INSTANTIATE_TEST_SUITE_P(Sections, OpenaiRoutes,
                         ::testing::Values("fields", "prompts", "log_probs", "together", "pieces",
                                           "streams", "stops", "refusals", "chat", "tokens"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace moonring::lua
