// The gated delta rule and the short convolution on the pretend device (a simulated GPU), with
// Moonring's kernels and with LibTorch's operators (MOONRING_KERNELS=composed), compared with the
// recurrence and with the CPU in fp64.

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>

#include "base/autograd/custom_function.h"
#include "gtest/gtest.h"
#include "mixers/rule/delta_recurrence.h"
#include "mixers/rule/delta_rule.h"
#include "mixers/rule/document_chunks.h"
#include "mixers/rule/packed_heads.h"
#include "mixers/rule/short_convolution.h"
#include "mixers/rule/span.h"
#include "tests/mixers/delta_problem.h"
#include "tests/testing/all_close.h"
#include "tests/testing/kernel_choice.h"
#include "tests/testing/pretend_device/device.h"

namespace moonring::mixers {
namespace {

using ::moonring::testing::DeltaProblem;
using ::moonring::testing::KernelChoice;
using ::moonring::testing::NamedTensor;
using ::moonring::testing::RelativeError;
using ::moonring::testing::RunDelta;

const c10::Device kGpu(c10::kCUDA, 0);

DeltaResult OnGpu(const DeltaInputs& inputs, const std::vector<int64_t>& lengths,
                  const DeltaOptions& options) {
  const auto there = [](const at::Tensor& x) { return x.defined() ? x.to(kGpu) : x; };
  const DeltaResult made =
      GatedDeltaRule({there(inputs.q_THK), there(inputs.k_THK), there(inputs.v_THV),
                      there(inputs.g), there(inputs.beta_TH), there(inputs.initial_DHVK)},
                     lengths, options);
  return {made.out_THV.to(at::kCPU), made.final_DHVK.to(at::kCPU)};
}

std::vector<DeltaProblem> KernelProblems() {
  std::vector<DeltaProblem> problems;
  for (const bool by_channel : {false, true}) {
    const std::string kind = by_channel ? "ByChannel" : "ByHead";
    problems.push_back({kind + "One", {200}, by_channel, true});
    problems.push_back({kind + "ShortEnds", {65, 0, 1, 130, 64, 17}, by_channel, false});
    problems.push_back({kind + "FromStates", {65, 0, 1, 130, 64, 17}, by_channel, true});
    problems.push_back({kind + "SharedKeyHeads", {70, 9}, by_channel, true, true, 2, 6});
    problems.push_back({kind + "Wide", {70, 9}, by_channel, true, true, 1, 1, 136, 24});
    problems.push_back({kind + "Strong", {150}, by_channel, true, false, 2, 2, 8, 6, 15});
    problems.push_back(
        {kind + "StrongAtTimes", {150}, by_channel, true, false, 1, 3, 8, 6, 0.05, 7});
    problems.push_back({kind + "Empty", {0}, by_channel, true});
    // More data than is processed at a time (packed_heads.h): rounds are split into pieces, and
    // heads into slices.
    DeltaProblem parts{kind + "Parts", {150, 0, 300, 9}, by_channel, true, true, 2, 4};
    parts.working_numbers = 1 << 16;
    problems.push_back(parts);
    DeltaProblem slices{kind + "PartsOfSlices", {65, 0, 1, 130, 64, 200}, by_channel, true, true};
    slices.working_numbers = 1 << 14;
    problems.push_back(slices);
    for (DeltaProblem problem : {problems[problems.size() - 1], problems[problems.size() - 3]}) {
      problem.name += "WithoutDelta";
      problem.delta = false;
      problems.push_back(problem);
    }
  }
  return problems;
}

class DeltaKernelsTest : public ::testing::TestWithParam<DeltaProblem> {
 protected:
  static int64_t Tiles(at::ScalarType dtype) {
    const DeltaTiles tiles =
        TilesOf(moonring::testing::ToDtype(moonring::testing::MakeDeltaInputs(GetParam()), dtype),
                DocumentChunks(GetParam().lengths, kDeltaChunk, at::kCPU),
                moonring::testing::OptionsOf(GetParam()));
    const auto slices = static_cast<int64_t>(tiles.slices.size()),
               parts = static_cast<int64_t>(tiles.parts.size());
    if (GetParam().working_numbers > 0) {
      EXPECT_GT(parts, 1);
      EXPECT_EQ(slices, GetParam().working_numbers > 1 << 14 ? 1 : 2);
    }
    return slices * parts;
  }

  void Check(at::ScalarType dtype, double bound, bool fused_there) {
    const auto wanted = RunDelta(DeltaRecurrence, GetParam(), at::kDouble);
    for (const char* word : {"fused", "composed"}) {
      SCOPED_TRACE(::testing::Message() << word << " " << dtype);
      const KernelChoice choice(word);
      pretend::ResetCounts();
      const auto made = RunDelta(OnGpu, GetParam(), dtype);
      const bool fused = fused_there && word == std::string("fused");
      std::map<std::string, int64_t> counted = pretend::CountsNow().kernels;
      // With a decay per channel, and for rules without the delta term, only the scan has a kernel.
      // It is launched for each tile, forward and backward.
      const int64_t tiles = fused ? Tiles(dtype) : 0;
      const bool all = GetParam().delta && !GetParam().by_channel;
      EXPECT_EQ(counted["delta_scan"], 2 * tiles);
      EXPECT_EQ(counted["delta_pack"], all ? 2 * tiles : 0);
      EXPECT_EQ(counted["delta_gradients"], all ? tiles : 0);
      for (size_t i = 0; i < wanted.size(); ++i)
        EXPECT_TRUE(RelativeError(made[i].tensor, wanted[i].tensor, bound)) << wanted[i].name;
    }
  }
};

// Bound for fp32: 2e-6, as for the CPU in tests/mixers/delta_rule_test.cc.
TEST_P(DeltaKernelsTest, IsTheRecurrenceWithItsGradients) {
  Check(at::kFloat, 2e-6, /*fused_there=*/true);
  Check(at::kDouble, 1e-10, /*fused_there=*/false);
}

INSTANTIATE_TEST_SUITE_P(All, DeltaKernelsTest, ::testing::ValuesIn(KernelProblems()),
                         [](const auto& info) { return info.param.name; });

// bf16 inputs: the distance from the fp64 recurrence of the same inputs is at most that of results
// rounded to bf16. Products are in TF32, and with 64 channels the scan too.
class DeltaKernelsBf16Test : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Keys, DeltaKernelsBf16Test, ::testing::Values(32, 64));

TEST_P(DeltaKernelsBf16Test, OfInputsInBf16) {
  const DeltaProblem problem{"", {100, 30}, false, true, true, 2, 4, GetParam(), 24};
  const auto rounded = [](const DeltaInputs& in) {
    DeltaInputs made = in;
    for (at::Tensor* x : {&made.q_THK, &made.k_THK, &made.v_THV}) *x = x->to(at::kBFloat16);
    made.g = in.g.to(at::kFloat);
    made.beta_TH = in.beta_TH.to(at::kFloat);
    made.initial_DHVK = in.initial_DHVK.to(at::kFloat);
    return made;
  };
  const auto wanted = RunDelta(
      [&](const DeltaInputs& in, const std::vector<int64_t>& lengths, const DeltaOptions& options) {
        const DeltaInputs narrow = rounded(in);
        return DeltaRecurrence(moonring::testing::ToDtype(narrow, at::kDouble), lengths, options);
      },
      problem, at::kDouble);
  for (const char* word : {"fused", "composed"}) {
    const KernelChoice choice(word);
    const auto made = RunDelta(
        [&](const DeltaInputs& in, const std::vector<int64_t>& lengths,
            const DeltaOptions& options) {
          const DeltaResult result = OnGpu(rounded(in), lengths, options);
          return DeltaResult{result.out_THV.to(at::kDouble), result.final_DHVK.to(at::kDouble)};
        },
        problem, at::kDouble);
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(RelativeError(made[i].tensor, wanted[i].tensor, 5e-3)) << word << wanted[i].name;
  }
}

// A span in the middle of a document, as a whole and in three pieces, with and without the delta
// term: its state map, and its own contribution to the gradient, equal the CPU's in fp64.
class SpanKernelsTest : public ::testing::TestWithParam<std::tuple<bool, int64_t>> {};
INSTANTIATE_TEST_SUITE_P(All, SpanKernelsTest,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(1, 3)));

TEST_P(SpanKernelsTest, MapsAndFirstStateGradients) {
  const auto [delta, parts] = GetParam();
  DeltaProblem problem{"", {150}, false, false, true, 2, 4, 24, 20, 0.02};
  problem.delta = delta;
  if (parts > 1) problem.working_numbers = 1 << 14;
  const auto packed = [&, delta = delta](const char* word, int64_t chunks) {
    return delta && word == std::string("fused") ? (problem.working_numbers > 0 ? chunks : 1) : 0;
  };
  const DeltaInputs wide = moonring::testing::MakeDeltaInputs(problem);
  const DeltaOptions options = moonring::testing::OptionsOf(problem);
  const at::Tensor d_out = at::randn(wide.v_THV.sizes(), at::kDouble);
  const auto there = [](const at::Tensor& x) { return x.to(at::kFloat).to(kGpu); };
  const DeltaInputs narrow{there(wide.q_THK), there(wide.k_THK),   there(wide.v_THV),
                           there(wide.g),     there(wide.beta_TH), {}};
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{150}, std::vector<int64_t>{70, 80}}) {
    const SpanMap wanted = MapOfSpan(wide, lengths, true, options);
    for (const char* word : {"fused", "composed"}) {
      const KernelChoice choice(word);
      pretend::ResetCounts();
      const SpanMap made = MapOfSpan(narrow, lengths, true, options);
      EXPECT_EQ(pretend::CountsNow().kernels["delta_pack"],
                packed(word, (lengths.back() + 63) / 64));
      EXPECT_TRUE(RelativeError(made.a_HKK.cpu(), wanted.a_HKK, 2e-6)) << word;
      EXPECT_TRUE(RelativeError(made.b_HVK.cpu(), wanted.b_HVK, 2e-6)) << word;
    }
  }
  const at::Tensor wanted = FirstStateGradient(wide, d_out, options);
  for (const char* word : {"fused", "composed"}) {
    const KernelChoice choice(word);
    pretend::ResetCounts();
    const at::Tensor made = FirstStateGradient(narrow, there(d_out), options);
    EXPECT_EQ(pretend::CountsNow().kernels["delta_pack"], packed(word, parts));
    EXPECT_TRUE(RelativeError(made.cpu(), wanted, 2e-6)) << word;
  }
}

TEST(ShortConvolutionKernelsTest, IsTheCpus) {
  const std::vector<int64_t> lengths = {5, 0, 1, 2, 64}, halos = {2, 3, 0, 1, 0};
  for (const int64_t taps : {4, 5}) {  // the kernel does not support five
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
      at::Generator(at::globalContext().defaultGenerator(at::kCPU)).set_current_seed(3);
      const auto random = [&](at::IntArrayRef sizes, at::ScalarType of) {
        return at::randn(sizes, at::kDouble).to(of);
      };
      const base::Tensors given = {random({72, 10}, dtype), random({10, taps}, at::kFloat),
                                   random({10}, at::kFloat), random({6, 10}, dtype)};
      const at::Tensor d = random({72, 10}, dtype);
      const auto run = [&](c10::Device device, at::ScalarType wide) {
        base::Tensors leaves;
        for (const at::Tensor& x : given)
          leaves.push_back(
              x.to(device).to(wide == at::kDouble ? wide : x.scalar_type()).requires_grad_());
        const at::Tensor y = ShortConvolution({leaves[0], leaves[1], leaves[2], leaves[3]}, lengths,
                                              {.silu = true, .halo_lengths = halos});
        base::Tensors made = base::Differentiate({y}, leaves, {d.to(device).to(y.scalar_type())});
        made.push_back(y);
        for (at::Tensor& x : made) x = x.detach().to(at::kCPU);
        return made;
      };
      const base::Tensors wanted = run(at::kCPU, at::kDouble);
      for (const char* word : {"fused", "composed"}) {
        SCOPED_TRACE(::testing::Message() << word << " " << dtype << ", " << taps << " taps");
        const KernelChoice choice(word);
        pretend::ResetCounts();
        const base::Tensors made = run(kGpu, dtype);
        const bool fused = word == std::string("fused") && taps == 4;
        EXPECT_EQ(pretend::CountsNow().kernels["short_convolution"], fused ? 1 : 0);
        for (size_t i = 0; i < made.size(); ++i)
          EXPECT_TRUE(RelativeError(
              made[i], wanted[i],
              made[i].scalar_type() == at::kBFloat16 ? 5e-3 : (dtype == at::kDouble ? 1e-6 : 2e-6)))
              << i;
      }
    }
  }
}

}  // namespace
}  // namespace moonring::mixers
