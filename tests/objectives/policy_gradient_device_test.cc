// GRPO's loss on the pretend device (a simulated GPU): it equals the CPU's, and never waits for the
// device.

#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/sequence.h"
#include "objectives/policy_gradient.h"
#include "tests/testing/all_close.h"
#include "tests/testing/pretend_device/device.h"

namespace moonring::objectives {
namespace {

using ::moonring::testing::RelativeError;

struct Made {
  at::Tensor loss, gradient;
  Metrics metrics;
};

Made MakeOn(const std::string& loss_type, const std::string& level, c10::Device device) {
  at::Generator(at::globalContext().defaultGenerator(at::kCPU)).set_current_seed(3);
  const std::vector<int64_t> lengths = {70, 3, 12};
  const auto layout = *comm::Layout::Create(lengths, {});
  const auto numbers = [&] { return at::randn({85}, at::kDouble).abs().neg().to(device); };
  const bool rloo = loss_type == "rloo";
  PolicyGradientOptions options;
  options.loss_type = loss_type;
  options.importance_sampling_level = level;
  options.beta = rloo ? 0.0 : 0.2;
  const auto policy_gradient = *PolicyGradient::Create(options);
  PolicyBatch batch;
  batch.log_prob_T = numbers().requires_grad_();
  batch.old_T = numbers();
  batch.reference_T = numbers();
  batch.entropy_T = numbers();
  batch.sampled_T = numbers();
  if (!rloo) batch.high_entropy_T = numbers().lt(-0.5);
  at::Tensor targets_T = at::zeros({85}, at::kLong);
  targets_T.slice(0, 0, 20).fill_(comm::kIgnore);
  batch.targets_T = targets_T.to(device);
  batch.advantages = at::tensor({1.0, -0.5, 0.25}, at::kDouble);  // on the host
  batch.counted = {true, false, true};
  pretend::ResetCounts();
  const Sums sums = policy_gradient->Loss(batch, *layout, comm::Communicator::Alone());
  sums.loss.backward();
  if (!device.is_cpu()) {
    const pretend::Counts counts = pretend::CountsNow();
    EXPECT_EQ(counts.Synchronizations(), 0);
    EXPECT_EQ(counts.to_device.blocking + counts.to_host.blocking, 0);
  }
  Made made{sums.loss.detach().to(at::kCPU), batch.log_prob_T.grad().to(at::kCPU), sums.metrics};
  for (auto& [name, metric] : made.metrics) {
    EXPECT_EQ(metric.unread.defined(), !device.is_cpu()) << name;
    if (!metric.unread.defined()) continue;
    const at::Tensor read = metric.unread.to(at::kCPU);
    metric.sum = read[0].item<double>();
    metric.count = read[1].item<double>();
  }
  return made;
}

TEST(PolicyGradientDeviceTest, TheCpusNumbers) {
  for (const char* loss_type : {"grpo", "dapo", "rloo"}) {
    for (const char* level : {"token", "sequence"}) {
      if (loss_type == std::string("rloo") && level == std::string("sequence")) continue;
      SCOPED_TRACE(std::string(loss_type) + ", " + level);
      const Made wanted = MakeOn(loss_type, level, at::kCPU),
                 made = MakeOn(loss_type, level, c10::Device(c10::kCUDA, 0));
      EXPECT_TRUE(RelativeError(made.loss, wanted.loss, 1e-14));
      EXPECT_TRUE(RelativeError(made.gradient, wanted.gradient, 1e-14));
      ASSERT_EQ(made.metrics.size(), wanted.metrics.size());
      for (const auto& [name, metric] : wanted.metrics) {
        EXPECT_NEAR(made.metrics.at(name).sum, metric.sum, 1e-12) << name;
        EXPECT_EQ(made.metrics.at(name).count, metric.count) << name;
        EXPECT_EQ(made.metrics.at(name).kind, metric.kind) << name;
      }
    }
  }
}

}  // namespace
}  // namespace moonring::objectives
