// Starts each test with LibTorch's CPU generator in the same state. By default LibTorch seeds it
// from the system's entropy, so random inputs, and the distance of results from their bounds, would
// vary between runs.

#include <mutex>

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

namespace moonring::testing {
namespace {

class Seeds : public ::testing::EmptyTestEventListener {
 public:
  void OnTestStart(const ::testing::TestInfo&) override {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(1);
  }
};

[[maybe_unused]] const bool kAppended = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Seeds);
  return true;
}();

}  // namespace
}  // namespace moonring::testing
