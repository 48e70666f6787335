// Stages that train on rewards: grpo, rloo and online_dpo, on completions that the model generates
// in the run. Numbers are the same on any number of ranks and with any batch size, and a run
// resumes bit-identically after a kill. grpo equals the same loss written in Lua
// (scripts/grpo.lua). Also reward functions that fail.

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Two rewards: the fraction of vowels, and whether a word from the row's own column occurs.
constexpr char kRewards[] = R"lua(
return {
  { name = "vowels", each = function(row)
    return select(2, row.completion:gsub("[aeiou]", "")) / math.max(#row.completion, 1)
  end },
  { name = "short", each = function(row) return -#row.completion_ids / 100 end },
}
)lua";

class Rollouts : public ResumedRuns {
 protected:
  Rollouts() { Write("rewards.lua", kRewards); }

  // Returns the keys for three steps of 4 prompts with 4 completions each.
  static Words Grpo(const Words& more = {}) {
    return Words{"stage=grpo",
                 "reward_funcs=rewards.lua",
                 "num_generations=4",
                 "per_device_train_batch_size=8",
                 "gradient_accumulation_steps=2",
                 "max_prompt_length=64",
                 "max_completion_length=12",
                 "max_steps=3",
                 "log_completions=true",
                 "fp64=true"} +
           more;
  }

  // Returns the completions of a rollout, with their rewards.
  std::vector<json> Completions(const std::string& out, int rollout = 0) const {
    char name[32];
    snprintf(name, sizeof name, "%05d", rollout);
    return ReadJsonLines(Path(out + "/completions/" + name + ".jsonl"));
  }

  void ExpectSameCompletions(const std::string& a, const std::string& b, int rollouts = 3) const {
    for (int r = 0; r < rollouts; ++r) {
      const std::vector<json> ours = Completions(a, r), theirs = Completions(b, r);
      ASSERT_EQ(ours.size(), theirs.size());
      ASSERT_EQ(ours.size(), 16u);
      for (size_t i = 0; i < ours.size(); ++i) {
        EXPECT_EQ(ours[i].at("completion"), theirs[i].at("completion")) << a << " " << r << i;
        EXPECT_EQ(ours[i].at("example"), theirs[i].at("example"));
        EXPECT_NEAR(ours[i].at("advantage"), theirs[i].at("advantage"), 1e-9);
      }
    }
  }

  void ExpectNear(const std::string& a, const std::string& b, const Words& names,
                  double bound) const {
    const json ours = Steps(a), theirs = Steps(b);
    ASSERT_EQ(ours.size(), theirs.size());
    ASSERT_GE(ours.size(), 3u);
    for (size_t i = 0; i < ours.size(); ++i) {
      for (const std::string& name : names) {
        ASSERT_EQ(ours[i].contains(name), theirs[i].contains(name)) << ours[i] << theirs[i];
        if (!ours[i].contains(name)) continue;  // of a rollout: its first step has it
        const double x = ours[i].at(name), y = theirs[i].at(name);
        EXPECT_NEAR(x, y, bound * std::max(1.0, std::fabs(y))) << a << " " << i << " " << name;
      }
    }
  }
};

TEST_F(Rollouts, AreTheSameOnAnyRanksAndInAnyBatches) {
  const Words names = {"loss",   "grad_norm", "reward", "reward_std", "completions/mean_length",
                       "entropy"};
  ASSERT_THAT(Train("one", Grpo()), Succeeds());
  const json steps = Steps("one");
  EXPECT_GT(steps[0].at("grad_norm").get<double>(), 1e-3);
  EXPECT_LT(steps[0].at("sampling/logp_difference/max").get<double>(), 1e-9);
  struct Shape {
    std::string name;
    Words more, options;
  };
  for (const auto& [name, more, options] : std::vector<Shape>{
           {"alone", {"rollout_sequences=1", "micro_batch_tokens=64"}, {}},
           {"sp2", {"sequence_parallel_size=2"}, {}},
           {"shared", {"share_prefixes=true"}, {}},
           {"sp2shared", {"share_prefixes=true", "sequence_parallel_size=2"}, {}},
           {"sp2spread", {"rollout_spread_length=1", "sequence_parallel_size=2"}, {}},
           {"sp2zero3",
            {"rollout_spread_length=1", "sequence_parallel_size=2", "zero_stage=3"},
            {}},
           {"dp2", {"per_device_train_batch_size=4"}, {"-n", "2"}},
           {"sp2dp2", {"sequence_parallel_size=2", "per_device_train_batch_size=4"}, {"-n", "4"}},
           {"zero3", {"per_device_train_batch_size=4", "zero_stage=3"}, {"-n", "2"}}}) {
    SCOPED_TRACE(name);
    ASSERT_THAT(Train(name, Grpo(more), options), Succeeds());
    ExpectNear(name, "one", names, 1e-9);
    ExpectSameCompletions(name, "one");
  }
}

// Each loss is tested with all options that it can be combined with.
TEST_F(Rollouts, TrainWithEachLossOnAnyRanks) {
  const std::vector<Words> losses = {
      {"loss_type=grpo", "beta=0.1", "num_iterations=2", "max_steps=4"},
      {"loss_type=bnpo", "delta=1.5", "epsilon_high=0.3", "scale_rewards=batch"},
      {"loss_type=dr_grpo", "scale_rewards=none"},
      {"loss_type=grpo", "importance_sampling_level=sequence", "steps_per_generation=4",
       "max_steps=4"},
      {"top_entropy_quantile=0.5", "soft_overlong_cache=4"},
      {"stage=rloo", "num_iterations=2", "max_steps=4", "normalize_advantages=true",
       "share_prefixes=true"},
      {"stage=online_dpo", "missing_eos_penalty=0.5", "finetuning_type=lora", "lora_target=all",
       "lora_rank=4"}};
  for (size_t i = 0; i < losses.size(); ++i) {
    SCOPED_TRACE(losses[i].front());
    const std::string one = "one" + std::to_string(i), two = "two" + std::to_string(i);
    ASSERT_THAT(Train(one, Grpo(losses[i])), Succeeds());
    ASSERT_THAT(
        Train(two,
              Grpo(losses[i] + Words{"sequence_parallel_size=2", "per_device_train_batch_size=4"}),
              {"-n", "4"}),
        Succeeds());
    ExpectNear(two, one, {"loss", "grad_norm", "reward"}, 1e-8);
    EXPECT_GT(Steps(one)[0].at("grad_norm").get<double>(), 1e-6);
  }
}

TEST_F(Rollouts, ResumeBitForBitAfterAKill) {
  ExpectResumes("whole", Grpo({"num_iterations=2", "max_steps=5"}), {1, 2, 3});
  ExpectResumes("shares",
                Grpo({"steps_per_generation=4", "max_steps=4", "sequence_parallel_size=2"}),
                {1, 2});
}

TEST_F(Rollouts, OtherRewardsAreAnotherRun) {
  ASSERT_THAT(Train("out", Grpo()), Succeeds());
  Write("rewards.lua", std::string(kRewards) + "-- another one\n");
  EXPECT_THAT(Train("out", Grpo({"max_steps=4", "resume_from_checkpoint=true"})),
              FailsWith(2, HasSubstr("reward_funcs was ")));
}

// The stage's loss equals the script's on the same completions.
TEST_F(Rollouts, TheStageTrainsAsTheScript) {
  Write("letters.lua", R"lua(
return { letters = function(batch)
  local values = {}
  for i, text in ipairs(batch.completions) do
    values[i] = select(2, text:gsub("%a", "")) / math.max(#text, 1)
  end
  return values
end }
)lua");
  const std::string home = Runfile("tests/golden/stages");
  ASSERT_THAT(Train("stage", Grpo({"reward_funcs=letters.lua", "scale_rewards=none", "fp64=false",
                                   "lr_scheduler_type=constant", "weight_decay=0",
                                   "max_prompt_length=2048", "cutoff_len=2048"})),
              Succeeds());
  ASSERT_THAT(Run(Words{Runfile("scripts/grpo.lua"), "model=" + home + "/model",
                        "dir=" + home + "/data", "data=talks", "template=chatml", "out=script",
                        "batch=16", "group=4", "steps=3", "tokens=12", "lr=1e-3"}),
              Succeeds());
  ExpectNear("script", "stage", {"loss", "grad_norm", "reward"}, 1e-5);
}

// All completions are truncated: they do not contribute to the loss, and nothing fails. If their
// tokens are not counted in the divisor either (TRL PR 6439), it is 0 and the step is skipped.
TEST_F(Rollouts, MaskedCompletionsHaveNoGradient) {
  for (const std::string loss : {"dapo", "bnpo"}) {
    const CommandResult result =
        Train(loss, Grpo({"loss_type=" + loss, "mask_truncated_completions=true"}));
    ASSERT_THAT(result, Succeeds());
    EXPECT_THAT(result.err, HasSubstr("step 1 has nothing to train on"));
  }
  for (const std::string loss : {"dr_grpo", "grpo"}) {
    ASSERT_THAT(Train(loss, Grpo({"loss_type=" + loss, "mask_truncated_completions=true"})),
                Succeeds());
    const json step = Steps(loss)[0];
    EXPECT_EQ(step.at("grad_norm").get<double>(), 0.0);
    EXPECT_EQ(step.at("completions/clipped_ratio").get<double>(), 1.0);
  }
}

TEST_F(Rollouts, ReplaceGroupsWithoutASignal) {
  // For every other row, all completions get the same reward.
  Write("rewards.lua", R"lua(
return { half = function(batch)
  local values = {}
  for i, example in ipairs(batch.rows) do
    values[i] = example % 2 == 0 and 1 or #batch.completions[i]
  end
  return values
end }
)lua");
  ASSERT_THAT(Train("out", Grpo({"dynamic_sampling=true"})), Succeeds());
  for (const json& each : Completions("out")) EXPECT_EQ(each.at("example").get<int>() % 2, 1);
  EXPECT_GT(Steps("out")[0].at("sampling/rounds").get<double>(), 1.0);
}

TEST_F(Rollouts, EvaluateByRewards) {
  ASSERT_THAT(Train("out", Grpo({"val_size=2", "eval_strategy=steps", "eval_steps=3"})),
              Succeeds());
  const json results = ReadJson(Path("out/eval_results.json"));
  EXPECT_TRUE(results.contains("eval_reward")) << results;
  EXPECT_TRUE(results.contains("eval_rewards/vowels/mean")) << results;
}

TEST_F(Rollouts, ARewardThatFailsEndsTheRunWithItsName) {
  const auto expect = [&](const std::string& body, const auto& message, const Words& more = {}) {
    Write("rewards.lua", "return { bad = function(batch)\n" + body + "\nend }");
    const CommandResult result = Train("out", Grpo(more + Words{"overwrite_output_dir=true"}));
    EXPECT_NE(result.exit_code, 0);
    EXPECT_FALSE(result.timed_out);
    EXPECT_THAT(result.err, message) << result.Describe();
  };
  expect("error 'no such luck'", AllOf(HasSubstr("bad"), HasSubstr("no such luck")));
  expect("while true do end", AllOf(HasSubstr("bad"), HasSubstr("reward_timeout")),
         {"reward_timeout=1"});
  expect("local v = {} for i = 1, #batch.completions do v[i] = 0 / 0 end return v",
         AllOf(HasSubstr("bad"), HasSubstr("nan")));
  expect("return { 1 }", AllOf(HasSubstr("bad"), HasSubstr("16")));
}

TEST_F(Rollouts, SizesThatDoNotDivideAreRefused) {
  EXPECT_THAT(Train("out", Grpo({"num_generations=5"})),
              FailsWith(2, AllOf(HasSubstr("num_generations"), HasSubstr("16"))));
  EXPECT_THAT(Train("out", Grpo({"reward_funcs="})), FailsWith(2, HasSubstr("reward_funcs")));
  EXPECT_THAT(Train("out", Grpo({"reward_funcs=none.lua"})),
              FailsWith(2, AllOf(HasSubstr("reward_funcs"), HasSubstr("none.lua"))));
  EXPECT_THAT(Train("out", Grpo({"steps_per_generation=3"})),
              FailsWith(2, HasSubstr("steps_per_generation")));
}

TEST_F(Rollouts, SamplingOutOfItsBoundsIsRefusedBeforeAnythingIsLoaded) {
  for (const auto& [word, message] : std::map<std::string, std::string>{
           {"top_p=1.5", "top_p: expected more than 0 and at most 1, got 1.5"},
           {"top_k=-1", "top_k: expected 0 or more, got -1"},
           {"temperature=0", "temperature: expected more than 0, got 0"},
           {"repetition_penalty=0", "repetition_penalty: expected more than 0, got 0"}}) {
    EXPECT_THAT(Train("out", Grpo({word})), FailsWith(2, HasSubstr(message)));
  }
}

}  // namespace
}  // namespace moonring::testing
