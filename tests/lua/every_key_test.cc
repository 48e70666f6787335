// Each key (lua/moonring/config/keys) has an effect, is rejected, or is reported to have no effect,
// with LLaMA-Factory's values and with invalid ones. The Lua scripts do the checks.

#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"
#include "tests/testing/scratch_folder.h"

namespace moonring::lua {
namespace {

TEST(EveryKey, ActsOrIsRefusedOrSaysThatItHasNoEffect) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  const std::string root = assets->root();
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  const ScriptError error = vm.Run(root + "/tests/lua/every_key_test.lua", "@every_key_test.lua",
                                   {root + "/tests/golden/llamafactory_keys/keys.json"});
  EXPECT_EQ(error.message, "");
}

// Runs a script and returns its error. Arguments: the path of a new folder with a
// dataset_info.json, then `words`.
std::string ErrorOf(const std::string& script, std::vector<std::string> words) {
  const auto assets = Assets::Find("test");
  if (!assets.ok()) return std::string(assets.status().message());
  const std::string root = assets->root();
  const testing::ScratchFolder folder;
  std::ofstream(folder / "dataset_info.json") << R"({"rows": {"file_name": "rows.json"}})";
  for (std::string& word : words) word = root + "/" + word;
  words.push_back(folder.path());
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  return vm.Run(root + "/tests/lua/" + script, "@" + script, words).message;
}

TEST(EveryKey, OfLlamaFactoryTakesItsValuesOrNamesItself) {
  EXPECT_EQ(
      ErrorOf("llamafactory_values_test.lua", {"tests/golden/llamafactory_keys/keys.json",
                                               "tests/golden/llamafactory_examples/examples.json"}),
      "");
}

TEST(EveryKey, LinesOfPublicConfigurationsActOrAreReported) {
  EXPECT_EQ(ErrorOf("public_lines_test.lua", {}), "");
}

TEST(EveryKey, IsTakenInEachFormOfWords) { EXPECT_EQ(ErrorOf("command_words_test.lua", {}), ""); }

}  // namespace
}  // namespace moonring::lua
