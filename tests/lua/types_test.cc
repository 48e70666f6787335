// Annotations in lua/types compared with the live API: one test for each section of types_test.lua.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

// Makes a model folder with a tokenizer from two golden folders, because none has both.
std::string ModelFolder(const fs::path& root, const fs::path& scratch) {
  const fs::path folder = scratch / "model";
  fs::create_directories(folder);
  const auto copy = [&](const char* from, const char* to) {
    fs::copy_file(root / from, folder / to, fs::copy_options::overwrite_existing);
  };
  copy("tests/golden/model/gqa_tied/config.json", "config.json");
  copy("tests/golden/model/gqa_tied/model.safetensors", "model.safetensors");
  copy("tests/golden/tokenizer/tiny/smollm2.tokenizer.json", "tokenizer.json");
  std::ofstream(folder / "tokenizer_config.json") << R"({"eos_token": "<|im_end|>"})";
  return folder.string();
}

class Types : public ::testing::TestWithParam<const char*> {};

TEST_P(Types, AreWhatThereIs) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  const fs::path root = assets->root();
  const fs::path scratch = fs::path(::testing::TempDir()) / GetParam();
  fs::create_directories(scratch);
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  const ScriptError error =
      vm.Run((root / "tests/lua/types_test.lua").string(), "@types_test.lua",
             {GetParam(), (root / "lua/types").string(), ModelFolder(root, scratch),
              (root / "tests/golden/preprocess/data").string(), scratch.string()});
  EXPECT_EQ(error.message, "");
}

INSTANTIATE_TEST_SUITE_P(Sections, Types,
                         ::testing::Values("documented", "exists", "parameters", "options",
                                           "records", "closed"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace moonring::lua
