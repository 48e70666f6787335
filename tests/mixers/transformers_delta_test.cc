// The gated delta rule compared with Transformers 5.23 (tests/golden/mixers/make.py): with
// Qwen3-Next's, which has one decay per head and shared key heads, and with Kimi Linear's, which
// has one decay per channel. Outputs, final states and gradients of all inputs are compared, with
// an initial state.
//
// Moonring computes in fp64 and Transformers in fp32, whose error determines the relative bound of
// 2e-6; 6e-7 is observed.
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "base/autograd/custom_function.h"
#include "gtest/gtest.h"
#include "mixers/rule/delta_recurrence.h"
#include "mixers/rule/delta_rule.h"
#include "model/files/safetensors.h"
#include "tests/testing/all_close.h"
#include "tests/testing/status_matchers.h"

namespace moonring::mixers {
namespace {

using ::moonring::testing::RelativeError;

TEST(TransformersDeltaTest, GivesTheirNumbersAndGradients) {
  ASSERT_OK_AND_ASSIGN(const auto file,
                       model::SafetensorsFile::Open("tests/golden/mixers/delta_rule.safetensors"));
  for (const std::string family : {"qwen3_next", "kimi"}) {
    const auto read = [&](const std::string& name) {
      return file->Read(family + "." + name).value().to(at::kDouble);
    };
    base::Tensors leaves;
    const std::vector<std::string> names = {"q", "k", "v", "g", "beta", "initial"};
    for (const std::string& name : names) leaves.push_back(read(name).requires_grad_());
    const DeltaInputs inputs{leaves[0], leaves[1], leaves[2], leaves[3], leaves[4], leaves[5]};
    const DeltaOptions options{.scale = 1 / std::sqrt(inputs.k_THK.size(2)), .normalize = true};
    for (const auto function : {GatedDeltaRule, DeltaRecurrence}) {
      const DeltaResult result = function(inputs, {inputs.v_THV.size(0)}, options);
      EXPECT_TRUE(RelativeError(result.out_THV, read("out"), 2e-6)) << family;
      EXPECT_TRUE(RelativeError(result.final_DHVK, read("final"), 2e-6)) << family;
      const base::Tensors made = base::Differentiate({result.out_THV, result.final_DHVK}, leaves,
                                                     {read("d_out"), read("d_final")});
      for (size_t i = 0; i < names.size(); ++i)
        EXPECT_TRUE(RelativeError(made[i], read("d_" + names[i]), 2e-6)) << family << names[i];
    }
  }
}

}  // namespace
}  // namespace moonring::mixers
