#include "trainer/optimizer/schedule.h"

#include <fstream>
#include <string>
#include <type_traits>

#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace moonring::trainer {
namespace {

ScheduleOptions OptionsOf(const nlohmann::json& wanted) {
  ScheduleOptions options{.kind = wanted["kind"],
                          .learning_rate = wanted["learning_rate"],
                          .warmup_steps = wanted["warmup_steps"],
                          .warmup_ratio = wanted["warmup_ratio"],
                          .total_steps = wanted["total_steps"]};
  const auto read = [&](const char* name, auto& option) {
    if (wanted["options"].contains(name))
      option = wanted["options"][name].get<typename std::decay_t<decltype(option)>::value_type>();
  };
  read("num_cycles", options.num_cycles);
  read("min_lr", options.min_lr);
  read("min_lr_rate", options.min_lr_rate);
  read("warmup_lr_rate", options.warmup_lr_rate);
  read("lr_end", options.lr_end);
  read("power", options.power);
  read("min_lr_ratio", options.min_lr_ratio);
  read("num_stable_steps", options.num_stable_steps);
  read("num_decay_steps", options.num_decay_steps);
  read("warmup_type", options.warmup_type);
  read("decay_type", options.decay_type);
  return options;
}

// Every step's rate, and two beyond the end, are the same doubles as those of Transformers'
// get_scheduler.
TEST(ScheduleTest, EqualsTransformers) {
  std::ifstream stream("tests/trainer/golden/schedules.json");
  const nlohmann::json golden = nlohmann::json::parse(stream);
  ASSERT_EQ(golden["cases"].size(), 136u);
  for (const auto& wanted : golden["cases"]) {
    const auto schedule = Schedule::Create(OptionsOf(wanted));
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    for (size_t step = 0; step < wanted["lrs"].size(); ++step) {
      EXPECT_DOUBLE_EQ(schedule->At(step), wanted["lrs"][step].get<double>())
          << wanted["kind"] << wanted["options"] << " of " << wanted["total_steps"] << " at "
          << step;
    }
  }
}

std::string Refusal(const ScheduleOptions& options) {
  return std::string(Schedule::Create(options).status().message());
}

TEST(ScheduleTest, Refuses) {
  EXPECT_EQ(Schedule::Create({.kind = "reduce_lr_on_plateau", .total_steps = 1}).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(
      Refusal({.kind = "cosin", .total_steps = 1}),
      "trainer.schedule: unknown lr_scheduler_type 'cosin' (did you mean 'cosine'?), expected "
      "linear, cosine, cosine_with_restarts, cosine_with_min_lr, "
      "cosine_warmup_with_min_lr, polynomial, inverse_sqrt, warmup_stable_decay, "
      "constant_with_warmup, constant");
  EXPECT_EQ(
      Refusal({.kind = "linear", .total_steps = 1, .num_cycles = 1}),
      "trainer.schedule: lr_scheduler_kwargs: num_cycles: lr_scheduler_type linear takes none");
  EXPECT_EQ(Refusal({.kind = "polynomial", .total_steps = 1, .min_lr = 1}),
            "trainer.schedule: lr_scheduler_kwargs: min_lr: lr_scheduler_type polynomial takes "
            "lr_end, power");
  EXPECT_EQ(Refusal({.kind = "polynomial", .total_steps = 1, .lr_end = 1}),
            "trainer.schedule: lr_scheduler_kwargs: lr_end is 1, expected less than learning_rate, "
            "5e-05");
  EXPECT_EQ(Refusal({.kind = "cosine_with_min_lr", .total_steps = 1}),
            "trainer.schedule: lr_scheduler_type: cosine_with_min_lr requires one of min_lr and "
            "min_lr_rate in lr_scheduler_kwargs");
  EXPECT_EQ(
      Refusal({.kind = "warmup_stable_decay", .total_steps = 1, .decay_type = "sqrt"}),
      "trainer.schedule: lr_scheduler_kwargs: decay_type: expected linear, cosine, 1-sqrt, got "
      "'sqrt' (did you mean '1-sqrt'?)");
  EXPECT_EQ(Refusal({.kind = "warmup_stable_decay", .total_steps = 1, .num_decay_steps = -1}),
            "trainer.schedule: lr_scheduler_kwargs: num_decay_steps is -1, expected 0 or more");
  EXPECT_FALSE(Schedule::Create({.learning_rate = -1.0}).ok());
  EXPECT_FALSE(Schedule::Create({.warmup_steps = -1}).ok());
  EXPECT_FALSE(Schedule::Create({.warmup_ratio = 1.5}).ok());
  EXPECT_FALSE(Schedule::Create({.total_steps = -1}).ok());
}

}  // namespace
}  // namespace moonring::trainer
