// Rollouts with hooks: completions of several turns, and changed logits. Numbers are the same on
// any number of ranks, a run resumes bit-identically, and a function that fails ends all ranks with
// its line.

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kRewardsOfSampled[] = R"lua(
return {
  { name = "vowels", each = function(row)
    local sampled = 0
    for _, one in ipairs(row.completion_mask) do sampled = sampled + one end
    return select(2, row.completion:gsub("[aeiou]", "")) / sampled
  end },
}
)lua";

// A turn ends with a vowel. The tool's result depends on the turn's text, and is a message of the
// template in the second turn. The logits' hook bans ids by the completion's length.
constexpr char kToolHooks[] = R"lua(
return {
  stop_texts = { "a", "e", "i", "o", "u" },
  max_turns = 4,
  logits = function(logits, completions)
    for i, each in ipairs(completions) do
      logits[i - 1]:slice(0, #each.ids % 3, nil, 5):fill_(-math.huge)
    end
  end,
  continue = function(completion)
    if #completion.text % 5 == 4 then return nil end
    if completion.turn == 2 then return { role = "tool", content = "so" } end
    return " " .. #completion.text .. completion.row.number
  end,
}
)lua";

class Turns : public ResumedRuns {
 protected:
  Turns() {
    Write("rewards.lua", kRewardsOfSampled);
    Write("tools.lua", kToolHooks);
  }

  static Words Grpo(const Words& more = {}) {
    return Words{"stage=grpo",
                 "reward_funcs=rewards.lua",
                 "rollout_hooks=tools.lua",
                 "num_generations=4",
                 "per_device_train_batch_size=8",
                 "gradient_accumulation_steps=2",
                 "max_prompt_length=64",
                 "max_completion_length=40",
                 "max_steps=3",
                 "log_completions=true",
                 "fp64=true"} +
           more;
  }

  std::vector<json> Completions(const std::string& out, int rollout = 0) const {
    char name[32];
    snprintf(name, sizeof name, "%05d", rollout);
    return ReadJsonLines(Path(out + "/completions/" + name + ".jsonl"));
  }

  void ExpectSameCompletions(const std::string& a, const std::string& b, int rollouts) const {
    for (int r = 0; r < rollouts; ++r) {
      const std::vector<json> ours = Completions(a, r), theirs = Completions(b, r);
      ASSERT_EQ(ours.size(), theirs.size());
      ASSERT_EQ(ours.size(), 16u);
      for (size_t i = 0; i < ours.size(); ++i) {
        for (const char* field : {"completion", "turns", "parts", "tokens", "stopped", "example"})
          EXPECT_EQ(ours[i].at(field), theirs[i].at(field)) << a << " " << r << " " << i;
      }
    }
  }

  void ExpectNear(const std::string& a, const std::string& b, const Words& names,
                  double bound) const {
    const json ours = Steps(a), theirs = Steps(b);
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      for (const std::string& name : names) {
        ASSERT_EQ(ours[i].contains(name), theirs[i].contains(name)) << ours[i] << theirs[i];
        if (!ours[i].contains(name)) continue;  // of a rollout: its first step has it
        const double x = ours[i].at(name), y = theirs[i].at(name);
        EXPECT_NEAR(x, y, bound * std::max(1.0, std::fabs(y))) << a << " " << i << " " << name;
      }
    }
  }

  void ExpectNearWeights(const std::string& a, const std::string& b, double bound) const {
    const StoredTensors theirs = ReadSafetensors(Path(b + "/model.safetensors"));
    for (const auto& [name, tensor] : ReadSafetensors(Path(a + "/model.safetensors")))
      EXPECT_LE(RelativeDistance(tensor.values, theirs.at(name).values), bound) << name;
  }
};

const Words kTurnNumbers = {"loss",
                            "grad_norm",
                            "reward",
                            "entropy",
                            "completions/mean_length",
                            "completions/mean_given_length",
                            "completions/mean_turns"};

TEST_F(Turns, AreTheSameOnAnyRanksAndInAnyBatches) {
  ASSERT_THAT(Train("one", Grpo()), Succeeds());
  const json step = Steps("one")[0];
  EXPECT_GT(step.at("grad_norm").get<double>(), 1e-3);
  // Given tokens are in no log-prob: the trainer's equal the sampler's.
  EXPECT_LT(step.at("sampling/logp_difference/max").get<double>(), 1e-9);
  EXPECT_GT(step.at("completions/mean_turns").get<double>(), 1.3);
  // A line's parts are the completion's text, and its lengths those of the log.
  double turns = 0;
  bool given = false;
  for (const json& line : Completions("one")) {
    std::string text;
    for (const json& part : line.at("parts")) {
      given |= part.contains("given");
      text += part.contains("given") ? part.at("given") : part.at("sampled");
    }
    EXPECT_EQ(text, line.at("completion"));
    EXPECT_TRUE(line.at("parts").back().contains("sampled"));
    turns += line.at("turns").get<double>();
  }
  EXPECT_TRUE(given);
  EXPECT_NEAR(step.at("completions/mean_turns").get<double>(), turns / 16, 1e-9);
  struct Shape {
    std::string name;
    Words more, options;
  };
  for (const auto& [name, more, options] : std::vector<Shape>{
           {"alone", {"rollout_sequences=1", "micro_batch_tokens=64", "share_prefixes=true"}, {}},
           {"sp2", {"sequence_parallel_size=2"}, {}},
           {"sp2zero3",
            {"rollout_spread_length=1", "sequence_parallel_size=2", "zero_stage=3"},
            {}},
           {"dp2", {"per_device_train_batch_size=4"}, {"-n", "2"}}}) {
    SCOPED_TRACE(name);
    ASSERT_THAT(Train(name, Grpo(more), options), Succeeds());
    ExpectNear(name, "one", kTurnNumbers, 1e-9);
    ExpectSameCompletions(name, "one", 3);
    ExpectNearWeights(name, "one", 1e-6);
  }
}

TEST_F(Turns, WithEachLossOnAnyRanks) {
  const std::vector<Words> losses = {
      {"loss_type=grpo", "beta=0.1", "num_iterations=2", "max_steps=4"},
      {"loss_type=bnpo", "mask_truncated_completions=true", "dynamic_sampling=true"},
      {"loss_type=dr_grpo", "scale_rewards=none", "val_size=2", "eval_strategy=steps",
       "eval_steps=3"},
      {"loss_type=grpo", "importance_sampling_level=sequence", "steps_per_generation=4",
       "max_steps=4"},
      {"top_entropy_quantile=0.5", "soft_overlong_cache=4"},
      {"stage=rloo", "num_iterations=2", "max_steps=4", "share_prefixes=true"},
      {"stage=online_dpo", "missing_eos_penalty=0.5", "share_prefixes=true"}};
  for (size_t i = 0; i < losses.size(); ++i) {
    SCOPED_TRACE(losses[i].front());
    const std::string one = "one" + std::to_string(i), two = "two" + std::to_string(i);
    ASSERT_THAT(Train(one, Grpo(losses[i])), Succeeds());
    ASSERT_THAT(
        Train(two,
              Grpo(losses[i] + Words{"sequence_parallel_size=2", "per_device_train_batch_size=4"}),
              {"-n", "4"}),
        Succeeds());
    ExpectNear(two, one, kTurnNumbers, 1e-8);
    ExpectNearWeights(two, one, 1e-6);
    EXPECT_GT(Steps(one)[0].at("grad_norm").get<double>(), 1e-6);
  }
}

TEST_F(Turns, ResumeBitForBitInTheMiddleOfARollout) {
  ExpectResumes("whole", Grpo({"num_iterations=2", "max_steps=3"}), {1, 2});
}

// The example: the same on any ranks, and a run that is continued from a checkpoint is bit-equal.
TEST_F(Turns, TheToolLoop) {
  const std::string home = Runfile("tests/golden/stages");
  const auto loop = [&](const std::string& out, const Words& options, const Words& more) {
    return Run(options +
               Words{Runfile("scripts/examples/tool_loop.lua"), "model=" + home + "/model",
                     "dir=" + home + "/data", "data=talks", "template=chatml", "out=" + out,
                     "batch=16", "group=4", "steps=3", "tokens=40", "stop=e", "lr=1e-3",
                     "fp64=true"} +
               more);
  };
  ASSERT_THAT(loop("one", {}, {}), Succeeds());
  EXPECT_GT(Steps("one")[0].at("grad_norm").get<double>(), 1e-4);
  EXPECT_GT(Steps("one")[0].at("completions/mean_turns").get<double>(), 1.3);
  for (const auto& [name, options, more] : std::vector<std::tuple<std::string, Words, Words>>{
           {"sp2", {}, {"sp=2"}}, {"dp2", {"-n", "2"}, {}}}) {
    ASSERT_THAT(loop(name, options, more), Succeeds());
    ExpectNear(name, "one", {"loss", "grad_norm", "reward"}, 1e-9);
    ExpectSameCompletions(name, "one", 3);
    ExpectNearWeights(name, "one", 1e-6);
  }
  KeepUpTo("one", 2, "again");
  const CommandResult resumed = loop("again", {}, {"resume=true"});
  ASSERT_THAT(resumed, Succeeds());
  EXPECT_THAT(resumed.err, HasSubstr("goes on after step 2"));
  ExpectSameRun("one", "again");
}

TEST_F(Turns, AFunctionThatFailsEndsAllRanksWithItsLine) {
  const auto expect = [&](const std::string& functions, const auto& message, const Words& more,
                          const Words& options = {}) {
    Write("tools.lua", "return { stop_texts = { 'e', 'a' },\n" + functions + " }");
    const CommandResult result =
        Train("out", Grpo(more + Words{"overwrite_output_dir=true"}), options);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_FALSE(result.timed_out);
    EXPECT_THAT(result.err, message) << result.Describe();
  };
  const Words dp2 = {"per_device_train_batch_size=4"};
  // Only one rank's tool fails.
  expect("continue = function(each)\nif each.row.number == 1 then error 'no luck' end end",
         HasSubstr("tools.lua:3: no luck"), dp2, {"-n", "2"});
  for (const Words& more : {Words{"sequence_parallel_size=2"},
                            Words{"sequence_parallel_size=2", "rollout_spread_length=1"},
                            Words{"sequence_parallel_size=2", "zero_stage=3"}}) {
    expect("logits = function() error 'no luck' end", HasSubstr("tools.lua:2: no luck"), more);
  }
  expect("logits = function(x) return x:fill_(-math.huge) end",
         HasSubstr("prompt 1, answer 1, token 0: the hook's result is -inf for every id"), {});
  expect("logits = function() return 3 end", HasSubstr("the hook's result is a number"), {});
  expect("continue = function() return 3 end", HasSubstr("continue: the result is a number"), {});
  expect("continue = function() return { role = 'system', content = '' } end",
         HasSubstr("role: expected tool or user, got 'system'"), {});
}

TEST_F(Turns, WrongHooksAreRefusedBeforeTheModelIsLoaded) {
  const auto expect = [&](const std::string& text, const std::string& message) {
    Write("tools.lua", text);
    EXPECT_THAT(Train("out", Grpo()), FailsWith(2, HasSubstr(message)));
  };
  expect("return 3", "rollout_hooks: tools.lua: expected a table of functions, got a number");
  expect("return { logit = print }",
         "rollout_hooks: tools.lua: unknown option 'logit' (did you mean 'logits'?)");
  expect("return { max_turns = 3 }", "max_turns: there is no function continue");
  EXPECT_THAT(Train("out", Grpo({"rollout_hooks=tools"})), FailsWith(2, HasSubstr(".lua file")));
  EXPECT_THAT(Train("out", {"rollout_hooks=tools.lua"}), FailsWith(2, HasSubstr("rollout_hooks")));
}

// Answers with a hook are the same with any number of answers at a time, and on several ranks.
TEST_F(Turns, TopNSigma) {
  const auto sample = [&](const Words& more) {
    const CommandResult result = Run(Words{Runfile("scripts/examples/top_n_sigma.lua"),
                                           "model=" + Runfile("tests/golden/stages") + "/model",
                                           "precision=fp64", "answers=4", "tokens=12"} +
                                     more);
    EXPECT_THAT(result, Succeeds());
    return result.out;
  };
  const std::string alone = sample({});
  EXPECT_EQ(sample({"sequences=1"}), alone);
  EXPECT_EQ(sample({"sp=2"}), alone);
  EXPECT_NE(sample({"n=100"}), alone);
  // n = 0 keeps the likeliest token only, as greedy decoding does.
  const std::string greedy = sample({"n=0", "answers=1"});
  EXPECT_EQ(sample({"n=0", "answers=1", "seed=7", "temperature=9"}), greedy);
}

}  // namespace
}  // namespace moonring::testing
