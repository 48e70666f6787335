// Fields of messages in addition to the text (reasoning, tool calls), by template: one test for
// each section of message_fields_test.lua.

#include <filesystem>
#include <string>

#include "gtest/gtest.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

class MessageFields : public ::testing::TestWithParam<const char*> {};

TEST_P(MessageFields, AreWrittenAsModelsDo) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  const fs::path root = assets->root();
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  const ScriptError error =
      vm.Run((root / "tests/lua/message_fields_test.lua").string(), "@message_fields_test.lua",
             {GetParam(), (root / "tests/golden/templates").string(), ::testing::TempDir()});
  EXPECT_EQ(error.message, "");
}

INSTANTIATE_TEST_SUITE_P(Sections, MessageFields,
                         ::testing::Values("equal", "inline", "arguments", "carried"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace moonring::lua
