// Token log-probs in three implementations: on the CPU, and on the pretend device (a simulated GPU)
// by the kernels for cross-entropy rows and by LibTorch's operators (MOONRING_KERNELS=composed).

#include <memory>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "comm/sequence.h"
#include "objectives/log_prob.h"
#include "tests/testing/all_close.h"
#include "tests/testing/kernel_choice.h"
#include "tests/testing/pretend_device/device.h"

namespace moonring::objectives {
namespace {

using base::Parameter;
using ::moonring::testing::BitEqual;
using ::moonring::testing::KernelChoice;
using ::moonring::testing::RelativeError;

struct KernelCase {
  std::string name;
  at::ScalarType dtype = at::kFloat, matmul = at::kFloat;
  double softcap = 0.0, smoothing = 0.0;
  double temperature = 1.0;
  bool bias = false;
  int64_t chunk_bytes = int64_t{1} << 30;  // one chunk
  double bound = 2e-6;                     // of gradients: sums in another order
};

struct MadeLogProb {
  at::Tensor log_prob, hidden, head, bias;
  TokenStatistics statistics;
};

constexpr int64_t kTokens = 41, kKernelHidden = 24, kVocabulary = 333;

MadeLogProb Run(const KernelCase& c, c10::Device device) {
  at::Generator(at::globalContext().defaultGenerator(at::kCPU)).set_current_seed(11);
  const auto random = [&](at::IntArrayRef sizes, double by) {
    return (at::randn(sizes, at::kDouble) * by).to(c.dtype).to(device);
  };
  at::Tensor hidden = random({kTokens, kKernelHidden}, 1.0).requires_grad_();
  const auto head = std::make_shared<Parameter>("head", random({kVocabulary, kKernelHidden}, 0.5));
  LogProbOptions options{
      .label_smoothing = c.smoothing, .matmul_dtype = c.matmul, .chunk_bytes = c.chunk_bytes};
  options.head.softcap = c.softcap;
  options.head.scale = 0.9;
  options.temperature = c.temperature;
  if (c.bias) options.head.bias_V = std::make_shared<Parameter>("bias", random({kVocabulary}, 0.5));
  const at::Tensor targets = at::randint(0, kVocabulary, {kTokens}, at::kLong);
  targets.slice(0, 3, kTokens, 5).fill_(comm::kIgnore);
  const at::Tensor upstream = at::randn({kTokens}).to(device);
  const LogProbs made =
      TokenLogProb(hidden, head, targets, options,
                   {.mean_logit = true, .greedy = true, .top_entropy = true, .entropy = true});
  made.log_prob_T.backward(upstream.to(made.log_prob_T.scalar_type()));
  const auto host = [](const at::Tensor& tensor) { return tensor.detach().to(at::kCPU); };
  return {host(made.log_prob_T),
          host(hidden.grad()),
          host(head->gradient()),
          c.bias ? host(options.head.bias_V->gradient()) : at::Tensor(),
          {.mean_logit_T = host(made.statistics.mean_logit_T),
           .top_entropy_T = host(made.statistics.top_entropy_T),
           .entropy_T = host(made.statistics.entropy_T),
           .greedy_T = host(made.statistics.greedy_T)}};
}

void Check(const KernelCase& c) {
  SCOPED_TRACE(c.name);
  const MadeLogProb wanted = Run(c, at::kCPU);
  // Outputs depend on one product, which all implementations round equally in bf16.
  const double bound = c.dtype == at::kDouble ? 1e-12 : 2e-6;
  for (const char* word : {"fused", "composed"}) {
    SCOPED_TRACE(word);
    const KernelChoice choice(word);
    pretend::ResetCounts();
    const MadeLogProb made = Run(c, c10::Device(c10::kCUDA, 0));
    auto counted = pretend::CountsNow().kernels;
    const bool fused = word == std::string("fused");
    EXPECT_EQ(counted["cross_entropy_rows"] > 0, fused);
    EXPECT_EQ(counted["cross_entropy_rows_backward"], counted["cross_entropy_rows"]);
    EXPECT_TRUE(RelativeError(made.log_prob, wanted.log_prob, bound));
    EXPECT_TRUE(RelativeError(made.hidden, wanted.hidden, c.bound));
    EXPECT_TRUE(RelativeError(made.head, wanted.head, c.bound));
    if (c.bias) {
      EXPECT_TRUE(RelativeError(made.bias, wanted.bias, c.bound));
    }
    EXPECT_TRUE(RelativeError(made.statistics.mean_logit_T, wanted.statistics.mean_logit_T,
                              c.dtype == at::kDouble ? 1e-11 : 1e-5));
    EXPECT_TRUE(RelativeError(made.statistics.top_entropy_T, wanted.statistics.top_entropy_T,
                              c.dtype == at::kDouble ? 1e-12 : 2e-6));
    EXPECT_TRUE(RelativeError(made.statistics.entropy_T, wanted.statistics.entropy_T,
                              c.dtype == at::kDouble ? 1e-12 : 2e-6));
    EXPECT_TRUE(BitEqual(made.statistics.greedy_T, wanted.statistics.greedy_T));
  }
}

TEST(LogProbKernelsTest, TheSameThreeWays) {
  const int64_t row = kVocabulary * 4;
  Check({"fp32"});
  Check({.name = "chunks", .chunk_bytes = 7 * row});
  Check({.name = "softcap and smoothing", .softcap = 3.0, .smoothing = 0.1});
  Check({.name = "softcap and temperature", .softcap = 3.0, .temperature = 0.6});
  Check({.name = "bias, in chunks", .bias = true, .chunk_bytes = 7 * row});
  Check({.name = "all, in fp64",
         .dtype = at::kDouble,
         .matmul = at::kDouble,
         .softcap = 3.0,
         .smoothing = 0.1,
         .bias = true,
         .chunk_bytes = 9 * row,
         .bound = 1e-12});
  // In this case the rows' gradients are rounded to bf16 for both products; in the other cases for
  // one of them.
  Check({.name = "bf16", .matmul = at::kBFloat16, .bound = 4e-3});
  Check({.name = "bf16, in chunks, softcap",
         .matmul = at::kBFloat16,
         .softcap = 3.0,
         .chunk_bytes = 5 * row,
         .bound = 4e-3});
  Check({.name = "bf16, bias", .matmul = at::kBFloat16, .bias = true, .bound = 4e-3});
  Check({.name = "fp16", .matmul = at::kHalf, .bound = 1e-3});
}

TEST(LogProbKernelsTest, BackwardTwice) {
  for (const char* word : {"fused", "composed"}) {
    const KernelChoice choice(word);
    const c10::Device gpu(c10::kCUDA, 0);
    at::Tensor hidden = at::randn({5, 8}).to(gpu).requires_grad_();
    const auto head = std::make_shared<Parameter>("head", at::randn({30, 8}).to(gpu));
    const at::Tensor log_p = TokenLogProb(hidden, head, at::arange(5, at::kLong), {});
    log_p.sum().backward({}, /*keep_graph=*/true);
    const at::Tensor once = hidden.grad().detach().clone();
    log_p.sum().backward();
    EXPECT_TRUE(RelativeError(hidden.grad().to(at::kCPU), (once * 2.0).to(at::kCPU), 1e-6));
  }
}

}  // namespace
}  // namespace moonring::objectives
