// The operators of blocks in three implementations: on the CPU, and on the pretend device (a
// simulated GPU) with fused kernels and with LibTorch's operators (MOONRING_KERNELS=composed).

#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/random/counter_random.h"
#include "model/blocks/gated_norm.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"
#include "model/blocks/rotary.h"
#include "tests/testing/all_close.h"
#include "tests/testing/pretend_device/device.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;
using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

const c10::Device kGpu(c10::kCUDA, 0);

class Kernels {
 public:
  explicit Kernels(const char* word) { setenv("MOONRING_KERNELS", word, 1); }
  ~Kernels() { unsetenv("MOONRING_KERNELS"); }
};

// Returns the results of `function` for `inputs` on `device`, and the gradients of the results'
// sums.
Tensors RunOn(const Function& function, const Tensors& inputs, c10::Device device) {
  Tensors leaves;
  for (const at::Tensor& input : inputs)
    leaves.push_back(input.detach().to(device).set_requires_grad(input.is_floating_point()));
  Tensors results = function(leaves), gradients, wanted;
  for (size_t i = 0; i < results.size(); ++i) {
    const at::Tensor ramp = at::linspace(-1, 2, results[i].numel(), at::kDouble);
    gradients.push_back(ramp.view(results[i].sizes()).to(results[i].scalar_type()).to(device));
  }
  for (const at::Tensor& leaf : leaves) {
    if (leaf.requires_grad()) wanted.push_back(leaf);
  }
  for (at::Tensor& d : torch::autograd::grad(results, wanted, gradients))
    results.push_back(std::move(d));
  for (at::Tensor& result : results) result = result.detach().to(at::kCPU);
  return results;
}

// Compares the three implementations. `kernels`: the expected number of launches of each kernel in
// the fused implementation, forward and backward.
void CheckKernels(const std::string& name, const Function& function, const Tensors& inputs,
                  double bound, const std::map<std::string, int64_t>& kernels) {
  SCOPED_TRACE(name);
  const Tensors wanted = RunOn(function, inputs, at::kCPU);
  for (const char* word : {"fused", "composed"}) {
    const Kernels choice(word);
    pretend::ResetCounts();
    const Tensors made = RunOn(function, inputs, kGpu);
    std::map<std::string, int64_t> counted = pretend::CountsNow().kernels;
    for (const auto& [kernel, count] : kernels)
      EXPECT_EQ(counted[kernel], word == std::string("fused") ? count : 0) << kernel;
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(made[i].scalar_type(), wanted[i].scalar_type());
      EXPECT_TRUE(RelativeError(made[i], wanted[i], bound)) << word << ", " << i;
    }
  }
}

at::Tensor RandomOf(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::randn(sizes, at::kDouble).to(dtype);
}

struct Precision {
  at::ScalarType matmul;
  double bound;
};
// Bounds relative to the CPU's operators, which round intermediate results in bf16.
constexpr Precision kPrecisions[] = {
    {at::kDouble, 1e-13}, {at::kFloat, 2e-6}, {at::kBFloat16, 2e-2}};

TEST(KernelsTest, Norms) {
  for (const Precision& p : kPrecisions) {
    const at::ScalarType stream = WideDtype(p.matmul);
    const at::Tensor x = RandomOf({23, 40}, stream), norm = RandomOf({40}, stream);
    CheckKernels(
        "RmsNorm",
        [&](const Tensors& in) -> Tensors { return {RmsNorm(in[0], in[1], 1e-6, p.matmul)}; },
        {x, norm}, p.bound, {{"rms_norm", 1}, {"rms_norm_backward", 1}});
    CheckKernels(
        "RmsNorm of narrow rows",
        [&](const Tensors& in) -> Tensors { return {RmsNorm(in[0], in[1], 1e-6, p.matmul)}; },
        {x.to(p.matmul), norm}, p.bound, {{"rms_norm", 1}, {"rms_norm_backward", 1}});
    CheckKernels("GatedRmsNorm",  // narrow rows; computed in the weight's dtype
                 [&](const Tensors& in) -> Tensors {
                   return {GatedRmsNorm(in[0], in[1], in[2], 1e-6, NormGate::kSilu)};
                 },
                 {x.to(p.matmul), RandomOf({23, 40}, p.matmul), norm}, p.bound,
                 {{"rms_norm", 2}, {"rms_norm_backward", 1}});
    CheckKernels("NormedLinear",
                 [&](const Tensors& in) { return NormedLinear(in[0], in[1], 1e-6, {in[2]}, {{}}); },
                 {x, norm, RandomOf({16, 40}, p.matmul)}, p.bound,
                 {{"rms_norm", 2}, {"rms_norm_backward", 1}});
    for (const double scale : {1.0, 0.3}) {
      CheckKernels("AddAndNorm",
                   [&](const Tensors& in) -> Tensors {
                     // y must be a new tensor, like a linear map's result.
                     SumAndNorm made = AddAndNorm(in[0], in[1] * 1.0, scale, in[2], 1e-6, p.matmul);
                     return {made.sum_TD, made.normed_TD};
                   },
                   {x, RandomOf({23, 40}, p.matmul), norm}, p.bound,
                   {{"rms_norm", 1}, {"rms_norm_backward", 1}});
      CheckKernels(
          "AddAndNorm, the sum alone",
          [&](const Tensors& in) -> Tensors {
            return {AddAndNorm(in[0], in[1] * 1.0, scale, norm.to(in[0].device()), 1e-6, p.matmul)
                        .sum_TD};
          },
          {x, RandomOf({23, 40}, p.matmul)}, p.bound, {});
    }
  }
}

TEST(KernelsTest, GatedMaps) {
  for (const Precision& p : kPrecisions) {
    for (const Activation activation :
         {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh}) {
      CheckKernels("GatedDown",
                   [&](const Tensors& in) -> Tensors {
                     return {GatedDown(in[0].narrow(1, 0, 24), in[0].narrow(1, 24, 24), in[1], {},
                                       activation)};
                   },
                   {RandomOf({11, 48}, p.matmul), RandomOf({8, 24}, p.matmul)}, p.bound,
                   {{"gated", 2}, {"gated_backward_", 1}});
    }
  }
}

TEST(KernelsTest, RotaryOfQueriesAndKeys) {
  for (const Precision& p : kPrecisions) {
    for (const bool interleaved : {false, true}) {
      CheckKernels("rotary",
                   [&](const Tensors& in) -> Tensors {
                     RotaryRule rule{.dim = 8};
                     rule.interleaved = interleaved;
                     const Rotary rotary =
                         MakeRotary(rule, in[2], at::Tensor(), WideDtype(p.matmul));
                     TurnedHeads turned = ApplyRotary(in[0], in[1], rotary);
                     return {turned.q_THD, turned.k_TKD};
                   },
                   {RandomOf({9, 4, 12}, p.matmul), RandomOf({9, 2, 12}, p.matmul),
                    at::arange(9, at::kLong) * 3},
                   p.bound, {{"rotary", 2}});
    }
  }
}

TEST(KernelsTest, AdapterWithDropout) {
  for (const Precision& p : kPrecisions) {
    for (const bool dora : {false, true}) {
      CheckKernels(
          "adapted projection",
          [&](const Tensors& in) -> Tensors {
            Projection map{in[3].detach(), {}, LowRank{in[1], in[2]}};
            map.low_rank->scale = 0.5;
            if (dora) map.low_rank->magnitude_O = in[5];
            map.low_rank->dropout = {0.25, kernels::CounterKey(1, 2, "map"), in[4]};
            at::Tensor y = Project(map, in[0]);
            // Every input must be used.
            if (!dora) y = y + in[5].sum() * 0;
            return {y + in[3].sum() * 0};
          },
          {RandomOf({13, 20}, p.matmul), RandomOf({4, 20}, p.matmul), RandomOf({10, 4}, p.matmul),
           RandomOf({10, 20}, p.matmul), at::arange(13, at::kLong) * 1000003,
           RandomOf({10}, WideDtype(p.matmul)).abs() + 1},
          p.bound, {{"dropout_", 3}});
    }
  }
}

TEST(KernelsTest, CounterUniformHasTheSameBits) {
  const at::Tensor identity = at::arange(13, at::kLong) * 1000003;
  const at::Tensor wanted = kernels::CounterUniform(7, identity, 21);
  for (const char* word : {"fused", "composed"}) {
    const Kernels choice(word);
    EXPECT_TRUE(BitEqual(kernels::CounterUniform(7, identity.to(kGpu), 21).to(at::kCPU), wanted))
        << word;
  }
}

TEST(KernelsTest, AnUnknownWordIsAnError) {
  const Kernels choice("fast");
  EXPECT_THROW(RmsNorm(at::ones({2, 4}, kGpu), at::ones({4}, kGpu), 1e-6, at::kFloat), c10::Error);
}

}  // namespace
}  // namespace moonring::model
