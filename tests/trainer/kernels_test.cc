// AdamW's steps and gradient norms agree in three implementations: on the CPU, on the pretend
// device (a simulated GPU) by the GPU's kernels, and there by LibTorch's operators
// (MOONRING_KERNELS=composed).

#include <memory>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/autograd/parameter.h"
#include "tests/testing/all_close.h"
#include "tests/testing/kernel_choice.h"
#include "tests/testing/pretend_device/device.h"
#include "trainer/optimizer/adamw.h"
#include "trainer/sharding/gradients.h"

namespace moonring::trainer {
namespace {

using ::moonring::testing::KernelChoice;
using ::moonring::testing::RelativeError;

const c10::Device kGpu(c10::kCUDA, 0);

// Returns parameters of several sizes; "bias" has no weight decay, "frozen" no gradient.
base::Parameters MakeParameters(at::ScalarType dtype, c10::Device device) {
  at::Generator(at::globalContext().defaultGenerator(at::kCPU)).set_current_seed(5);
  base::Parameters parameters;
  const auto add = [&](const char* name, at::IntArrayRef sizes, bool trainable = true) {
    const at::Tensor weight = at::randn(sizes, at::kDouble).to(dtype).to(device);
    parameters.push_back(std::make_shared<base::Parameter>(name, weight, trainable));
  };
  add("a.weight", {33, 65});
  add("a.bias", {7});
  add("b.weight", {300, 300});
  add("frozen.weight", {4, 4}, false);
  add("none.weight", {0, 3});
  add("c.weight", {1});
  return parameters;
}

void GiveGradients(const base::Parameters& parameters, c10::Device device) {
  for (const auto& parameter : parameters) {
    if (!parameter->trainable()) continue;
    parameter->ClearGradient();
    parameter->TakeGradient(
        at::randn(parameter->shape(), at::kDouble).to(parameter->gradient_dtype()).to(device));
  }
}

struct Made {
  base::Parameters parameters;
  std::vector<double> norms;
  double norm = 0.0;
};

Made TrainOn(at::ScalarType dtype, c10::Device device) {
  Made made{MakeParameters(dtype, device), {}};
  auto adamw = AdamW::Create({.weight_decay = 0.1}, made.parameters).value();
  for (int step = 0; step < 4; ++step) {
    GiveGradients(made.parameters, device);
    adamw->Step(1e-2);
  }
  made.norms = SumsOfSquares(made.parameters);
  made.norm = GlobalNorm(made.parameters);
  return made;
}

TEST(TrainerKernelsTest, TheSameThreeWays) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    SCOPED_TRACE(dtype);
    const Made wanted = TrainOn(dtype, at::kCPU);
    for (const char* word : {"fused", "composed"}) {
      SCOPED_TRACE(word);
      const KernelChoice choice(word);
      pretend::ResetCounts();
      const Made made = TrainOn(dtype, kGpu);
      auto counted = pretend::CountsNow().kernels;
      const bool fused = word == std::string("fused");
      // Two groups of parameters, with and without weight decay, in four steps.
      EXPECT_EQ(counted["adamw"], fused ? 8 : 0);
      EXPECT_EQ(counted["_fused_adamw_"] == 0, fused);
      EXPECT_EQ(counted["squared_norms"], fused ? 2 : 0);
      EXPECT_EQ(counted["_foreach_norm"], fused ? 0 : 2);
      for (size_t i = 0; i < made.parameters.size(); ++i) {
        if (made.parameters[i]->numel() == 0) continue;
        // In bf16, a difference in fp32's last digit may change the rounding to the other neighbor,
        // over four steps.
        EXPECT_TRUE(RelativeError(made.parameters[i]->weight().to(at::kCPU),
                                  wanted.parameters[i]->weight(),
                                  dtype == at::kDouble  ? 1e-14
                                  : dtype == at::kFloat ? 5e-7
                                                        : 5e-4))
            << i;
        EXPECT_NEAR(made.norms[i], wanted.norms[i], 1e-6 * wanted.norms[i]);
      }
      EXPECT_NEAR(made.norm, wanted.norm, 1e-7 * wanted.norm);
    }
  }
}

}  // namespace
}  // namespace moonring::trainer
