// Gives each file of a folder to a fuzz target, as libFuzzer does with one input: seeds, and what
// was once found to break a reader.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

class Input : public testing::Test {
 public:
  explicit Input(std::filesystem::path path) : path_(std::move(path)) {}

  void TestBody() override {
    std::ifstream file(path_, std::ios::binary);
    ASSERT_TRUE(file.is_open()) << path_;
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }

 private:
  std::filesystem::path path_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    const std::filesystem::path path = entry.path();
    testing::RegisterTest("Corpus", path.filename().c_str(), nullptr, nullptr, path.c_str(), 1,
                          [path] { return new Input(path); });
    ++inputs;
  }
  if (inputs == 0) return std::fprintf(stderr, "%s: no inputs\n", argv[1]), 1;
  return RUN_ALL_TESTS();
}
