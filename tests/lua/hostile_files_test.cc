// Runs hostile_files_test.lua: traces and training states from untrusted sources.

#include <filesystem>

#include "gtest/gtest.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

TEST(HostileFiles, AreReadOrRefusedByName) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  const fs::path root = assets->root();
  const fs::path folder = fs::path(::testing::TempDir()) / "hostile_files";
  fs::create_directories(folder);
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  const ScriptError error = vm.Run((root / "tests/lua/hostile_files_test.lua").string(),
                                   "@hostile_files_test.lua", {folder.string()});
  EXPECT_EQ(error.message, "");
}

}  // namespace
}  // namespace moonring::lua
