// Elementwise optimizers equal torch, lion-pytorch, bitsandbytes, schedulefree and badam
// (golden/elements.json, by make_elements.py).

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/trainer/rules/rule_check.h"
#include "trainer/rules/adagrad.h"
#include "trainer/rules/ademamix.h"
#include "trainer/rules/badam_ratio.h"
#include "trainer/rules/lion.h"
#include "trainer/rules/rmsprop.h"
#include "trainer/rules/schedule_free.h"
#include "trainer/rules/sgd_momentum.h"
#include "trainer/rules/spam.h"

namespace moonring::trainer {
namespace {

using ::moonring::testing::CheckRule;
using ::moonring::testing::RuleBounds;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr double kElementsDecay = 0.1;
constexpr char kFile[] = "elements.json";

template <auto rule_of, typename Options>
void CheckElements(const char* name, Options options, const RuleBounds& bounds = {}) {
  options.weight_decay = kElementsDecay;
  CheckRule(
      kFile, name, [=](const base::Parameters& all) { return rule_of(options, all); }, bounds);
}

TEST(ElementsTest, SgdWithMomentum) {
  CheckElements<&SgdMomentumRule>("sgd_momentum", SgdMomentumOptions{});
  CheckElements<&SgdMomentumRule>("sgd_nesterov",
                                  SgdMomentumOptions{.momentum = 0.8, .nesterov = true});
  CheckElements<&SgdMomentumRule>("sgd_dampening", SgdMomentumOptions{.dampening = 0.3});
}

TEST(ElementsTest, Adagrad) {
  CheckElements<&AdagradRule>("adagrad", AdagradOptions{});
  CheckElements<&AdagradRule>("adagrad_decay",
                              AdagradOptions{.lr_decay = 0.05, .initial = 0.1, .epsilon = 1e-6});
}

TEST(ElementsTest, Rmsprop) {
  CheckElements<&RmspropRule>("rmsprop", RmspropOptions{});
  CheckElements<&RmspropRule>("rmsprop_centered",
                              RmspropOptions{.alpha = 0.9, .momentum = 0.5, .centered = true});
}

TEST(ElementsTest, Lion) { CheckElements<&LionRule>("lion", LionOptions{}); }

TEST(ElementsTest, Ademamix) {
  CheckElements<&AdemamixRule>("ademamix", AdemamixOptions{});
  CheckElements<&AdemamixRule>(
      "ademamix_rising",
      AdemamixOptions{.beta2 = 0.99, .beta3 = 0.999, .alpha = 3.0, .t_alpha = 12, .t_beta3 = 15});
}

TEST(ElementsTest, ScheduleFree) {
  const RuleBounds bounds{.averages = true};
  CheckElements<&ScheduleFreeRule>("schedule_free_adamw", ScheduleFreeOptions{.warmup_steps = 6},
                                   bounds);
  CheckElements<&ScheduleFreeRule>(
      "schedule_free_sgd",
      ScheduleFreeOptions{
          .kind = ScheduleFreeKind::kSgd, .beta1 = 0.8, .r = 0.5, .weight_lr_power = 1.0},
      bounds);
  CheckElements<&ScheduleFreeRule>(
      "schedule_free_radam", ScheduleFreeOptions{.kind = ScheduleFreeKind::kRAdam, .beta2 = 0.99},
      bounds);
}

TEST(ElementsTest, BadamRatio) {
  for (const BadamMask mask : {BadamMask::kAdjacent, BadamMask::kScatter}) {
    const BadamRatioOptions options{.ratio = 0.3, .turn = 7, .mask = mask};
    CheckRule(kFile, mask == BadamMask::kAdjacent ? "badam_adjacent" : "badam_scatter",
              [=](const base::Parameters& all) { return BadamRatioRule(options, all); });
  }
}

// Compared with an implementation of the paper (golden/papers.json, by make_papers.py).
TEST(ElementsTest, Spam) {
  const SpamOptions options{.beta2 = 0.99,
                            .threshold = 2.0,
                            .reset = 8,
                            .warmup = 4,
                            .quiet = 2,
                            .weight_decay = kElementsDecay};
  CheckRule("papers.json", "spam",
            [=](const base::Parameters& all) { return SpamRule(options, all); });
}

TEST(ElementsTest, RefusesInvalidInput) {
  EXPECT_THAT(LionRule({.beta1 = 1.0}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("trainer.lion: beta1 is 1, expected 0 or more and less than 1")));
  EXPECT_THAT(SgdMomentumRule({.dampening = 0.1, .nesterov = true}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("nesterov goes with a dampening of 0")));
  EXPECT_THAT(AdemamixRule({.beta1 = 0.0, .t_beta3 = 10}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("trainer.ademamix: beta1 is 0, expected more than 0")));
  EXPECT_THAT(RmspropRule({.epsilon = -1.0}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("trainer.rmsprop: epsilon is -1, expected 0 or more")));
}

}  // namespace
}  // namespace moonring::trainer
