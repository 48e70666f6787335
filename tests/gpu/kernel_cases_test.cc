// Runs each kernel case at a small size with the CPU's implementation: the fp64 definitions are
// correct, and no operator lacks a case.

#include "tests/gpu/kernel_cases.h"

#include <set>
#include <string>

#include <ATen/ATen.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonring::testing {
namespace {

constexpr KernelSizes kSizes{
    .rows = 40, .width = 96, .heads = 6, .kv_heads = 2, .vocabulary = 133, .parameters = 70001};

TEST(KernelCases, AreWithinTheirBounds) {
  for (const KernelCase& each : KernelCases()) {
    at::manual_seed(5);
    const PreparedKernel kernel = each.prepare(kSizes, at::kCPU);
    EXPECT_GT(kernel.bytes, 0);
    EXPECT_LE(WorstError(kernel.call(), kernel.results), 1) << each.op << each.of;
  }
}

TEST(KernelCases, EveryKernelHasOne) {
  std::set<std::string> names;
  for (const KernelCase& each : KernelCases()) names.insert(each.op);
  EXPECT_THAT(KernelsFor(at::kCPU), ::testing::UnorderedElementsAreArray(names));
}

TEST(KernelCases, AWrongNumberIsSeen) {
  const KernelResult want{at::ones({4}, at::kDouble), 1e-3};
  EXPECT_LE(WorstError({at::ones({4})}, {want}), 1e-9);
  EXPECT_GT(WorstError({at::ones({4}) * 1.01}, {want}), 1);
  EXPECT_FALSE(WorstError({at::full({4}, std::nan(""))}, {want}) <= 1);
}

}  // namespace
}  // namespace moonring::testing
