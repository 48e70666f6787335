// The error of TF32 in the gated delta rule, compared with the error of bf16 inputs. Runs on the
// pretend device (a simulated GPU), where products truncate their operands (cuBLAS may be more
// exact), and the scan's kernel rounds them. Sizes are those of Qwen3-Next, over many chunks, with
// decays near 1.

#include <cstdio>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/products/tf32_products.h"
#include "mixers/rule/delta_rule.h"
#include "tests/mixers/delta_problem.h"
#include "tests/testing/all_close.h"
#include "tests/testing/pretend_device/device.h"

namespace moonring::mixers {
namespace {

using ::moonring::testing::DeltaProblem;
using ::moonring::testing::NamedTensor;
using ::moonring::testing::RelativeErrorOf;
using ::moonring::testing::RunDelta;

// Rounds the values of x to `dtype`, and passes the gradient of x through unchanged.
at::Tensor ValuesIn(const at::Tensor& x, at::ScalarType dtype) {
  return x + (x.detach().to(dtype).to(x.scalar_type()) - x.detach());
}

enum class Values { kExact, kBf16 };

// Runs the rule on `device` in `dtype`, with q, k and v rounded to bf16 or not. g, beta and states
// are fp32.
std::vector<NamedTensor> RunRule(const DeltaProblem& problem, Values values, c10::DeviceType device,
                                 at::ScalarType dtype, at::ScalarType of_rows) {
  const auto rule = [&](const DeltaInputs& in, const std::vector<int64_t>& lengths,
                        const DeltaOptions& options) {
    const auto wide = [&](const at::Tensor& x) {
      return ValuesIn(x, at::kFloat).to(dtype).to(device);
    };
    const auto rows = [&](const at::Tensor& x) {
      return (values == Values::kBf16 ? ValuesIn(x, at::kBFloat16) : x).to(of_rows).to(device);
    };
    const DeltaResult made = GatedDeltaRule({rows(in.q_THK), rows(in.k_THK), rows(in.v_THV),
                                             wide(in.g), wide(in.beta_TH), wide(in.initial_DHVK)},
                                            lengths, options);
    const auto back = [](const at::Tensor& x) { return x.to(at::kCPU).to(at::kDouble); };
    return DeltaResult{back(made.out_THV), back(made.final_DHVK)};
  };
  return RunDelta(rule, problem, at::kDouble);
}

class DeltaTf32Test : public ::testing::TestWithParam<double> {};
INSTANTIATE_TEST_SUITE_P(Decays, DeltaTf32Test, ::testing::Values(0.002, 0.05));

TEST_P(DeltaTf32Test, BesideInputsInBf16) {
  at::globalContext().setAllowTF32CuBLAS(false);
  const DeltaProblem problem{"", {1200, 848}, false, true, true, 1, 1, 128, 128, GetParam()};
  const auto unrounded = RunRule(problem, Values::kExact, at::kCPU, at::kDouble, at::kDouble),
             wanted = RunRule(problem, Values::kBf16, at::kCPU, at::kDouble, at::kDouble),
             in_fp32 = RunRule(problem, Values::kBf16, at::kCUDA, at::kFloat, at::kFloat),
             in_bf16 = RunRule(problem, Values::kBf16, at::kCUDA, at::kFloat, at::kBFloat16);
  EXPECT_FALSE(kernels::Tf32Products::AreOn());
  std::vector<NamedTensor> in_tf32;  // with fp32 results
  {
    const kernels::Tf32Products products(true);
    in_tf32 = RunRule(problem, Values::kBf16, at::kCUDA, at::kFloat, at::kFloat);
  }
  std::printf("g in [%g, 0]           inputs in bf16     TF32     fp32  a run in bf16\n",
              -2 * GetParam());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const at::Tensor& want = wanted[i].tensor;
    const double of_inputs = RelativeErrorOf(unrounded[i].tensor, want),
                 tf32 = RelativeErrorOf(in_tf32[i].tensor, want),
                 fp32 = RelativeErrorOf(in_fp32[i].tensor, want),
                 run = RelativeErrorOf(in_bf16[i].tensor, want);
    std::printf("%-22s %14.1e %8.1e %8.1e %14.1e\n", wanted[i].name.c_str(), of_inputs, tf32, fp32,
                run);
    EXPECT_LE(tf32, of_inputs) << wanted[i].name;
    EXPECT_LE(fp32, 2e-6) << wanted[i].name;
  }
}

}  // namespace
}  // namespace moonring::mixers
