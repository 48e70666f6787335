// Runs each fuzz target on each file of its corpus, as libFuzzer does with a single input: on seeds
// and on inputs that once caused a failure. Then runs it on some mutations of each file.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/fuzz/corpus.h"
#include "tests/fuzz/mutation.h"

namespace {

using moonring::fuzz::Corpus;
using moonring::fuzz::Target;

class Input : public testing::Test {
 public:
  Input(Target target, std::filesystem::path path) : target_(target), path_(std::move(path)) {}

  void TestBody() override {
    std::ifstream file(path_, std::ios::binary);
    ASSERT_TRUE(file.is_open()) << path_;
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    target_(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    std::mt19937_64 random(bytes.size());  // the same mutations in each run
    for (int i = 0; i < 4; ++i) {
      const std::string changed = moonring::fuzz::Mutated(bytes, {bytes}, random, 1 << 16);
      target_(reinterpret_cast<const uint8_t*>(changed.data()), changed.size());
    }
  }

 private:
  Target target_;
  std::filesystem::path path_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  size_t corpora = 0;
  for (const auto& folder : std::filesystem::directory_iterator("tests/fuzz/corpus")) {
    const auto target = Corpus::All().find(folder.path().filename());
    if (target == Corpus::All().end()) {
      std::fprintf(stderr, "%s: no target has this name\n", folder.path().c_str());
      return 1;
    }
    ++corpora;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::filesystem::path path = entry.path();
      testing::RegisterTest(target->first.c_str(), path.filename().c_str(), nullptr, nullptr,
                            path.c_str(), 1,
                            [target, path] { return new Input(target->second, path); });
    }
  }
  if (corpora != Corpus::All().size()) {
    std::fprintf(stderr, "%zu targets, %zu of them with inputs\n", Corpus::All().size(), corpora);
    return 1;
  }
  return RUN_ALL_TESTS();
}
