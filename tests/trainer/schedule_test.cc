#include "trainer/schedule.h"

#include <fstream>

#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace moonring::trainer {
namespace {

// Every step's rate, and two beyond the end, as Transformers' get_scheduler gives it: the same doubles.
TEST(ScheduleTest, EqualsTransformers) {
  std::ifstream stream("tests/trainer/golden/schedules.json");
  const nlohmann::json golden = nlohmann::json::parse(stream);
  ASSERT_EQ(golden["cases"].size(), 32u);
  for (const auto& wanted : golden["cases"]) {
    const auto schedule = Schedule::Create({.kind = wanted["kind"],
                                            .learning_rate = wanted["learning_rate"],
                                            .warmup_steps = wanted["warmup_steps"],
                                            .warmup_ratio = wanted["warmup_ratio"],
                                            .total_steps = wanted["total_steps"]});
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    for (size_t step = 0; step < wanted["lrs"].size(); ++step) {
      EXPECT_DOUBLE_EQ(schedule->At(step), wanted["lrs"][step].get<double>()) << wanted["kind"] << " of " << wanted["total_steps"] << " at " << step;
    }
  }
}

TEST(ScheduleTest, Refuses) {
  EXPECT_EQ(Schedule::Create({.kind = "polynomial", .total_steps = 1}).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Schedule::Create({.kind = "cosin", .total_steps = 1}).status().message(),
            "trainer.schedule: unknown lr_scheduler_type 'cosin', wanted linear, cosine, constant or constant_with_warmup");
  EXPECT_FALSE(Schedule::Create({.learning_rate = -1.0}).ok());
  EXPECT_FALSE(Schedule::Create({.warmup_steps = -1}).ok());
  EXPECT_FALSE(Schedule::Create({.warmup_ratio = 1.5}).ok());
  EXPECT_FALSE(Schedule::Create({.total_steps = -1}).ok());
}

}  // namespace
}  // namespace moonring::trainer
