// A step without anything to train on, in each stage: it makes no update, is reported once, and is
// counted like a skipped step.

#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kUnlabelled[] = "no label in it but -100";

class IdleStepsTest : public Workplace {
 protected:
  // Returns the command for steps of two examples, with a checkpoint after each. Weight decay and
  // momentum would change weights even without a gradient.
  Words CommandOf(const std::string& kind, const std::string& out, const Words& more,
                  int last = 3) const {
    const std::string home = Runfile("tests/golden/stages");
    Words words = {Runfile("tests/scripts/idle_steps.lua"),
                   kind,
                   std::to_string(last),
                   "model_name_or_path=" + home + "/model",
                   "dataset_dir=" + home + "/data",
                   "output_dir=" + out,
                   "finetuning_type=full",
                   "template=chatml",
                   "cutoff_len=160",
                   "per_device_train_batch_size=2",
                   "learning_rate=1e-3",
                   "lr_scheduler_type=linear",
                   "weight_decay=0.1",
                   "logging_steps=1",
                   "save_steps=1",
                   "max_steps=4"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  json StepLine(const std::string& out, int step) const {
    for (const json& line : ReadJsonLines(Path(out + "/trainer_log.jsonl"))) {
      if (line.at("current_steps") == step) return line;
    }
    return json();
  }

  std::string Saved(const std::string& out, int step, const std::string& file) const {
    return ReadText(Path(out + "/checkpoint-" + std::to_string(step) + "/" + file));
  }

  void ExpectStepsTwoAndThreeAreLeftOut(const CommandResult& result, const std::string& out,
                                        const std::string& states,
                                        const std::string& why = kUnlabelled) const {
    ASSERT_THAT(result, Succeeds());
    const std::string said = "step 2 has nothing to train on: " + why;
    EXPECT_THAT(result.err, HasSubstr(said));
    EXPECT_EQ(result.err.find(said), result.err.rfind(said)) << "said twice";
    EXPECT_THAT(result.err, Not(HasSubstr("step 3 has nothing to train on")));
    for (const std::string& file : {std::string("model.safetensors"), states}) {
      EXPECT_TRUE(Saved(out, 1, file) == Saved(out, 2, file)) << file;
      EXPECT_TRUE(Saved(out, 1, file) == Saved(out, 3, file)) << file;
      EXPECT_FALSE(Saved(out, 3, file) == Saved(out, 4, file)) << file;
    }
    for (const int step : {2, 3}) {
      EXPECT_FALSE(StepLine(out, step).contains("loss")) << step;
      EXPECT_EQ(StepLine(out, step).at("skipped_steps"), step - 1);
    }
    // The learning rate schedule also counts the skipped steps: 1e-3 (1 - (k - 1) / 4).
    for (const int step : {1, 4}) {
      EXPECT_NEAR(StepLine(out, step).at("lr").get<double>(), 1e-3 * (1 - (step - 1) / 4.0), 1e-12);
    }
    const double mean =
        (StepLine(out, 1).at("loss").get<double>() + StepLine(out, 4).at("loss").get<double>()) / 2;
    EXPECT_NEAR(ReadJson(Path(out + "/train_results.json")).at("train_loss").get<double>(), mean,
                1e-12);
  }
};

constexpr char kAlone[] = "states-00001-of-00001.safetensors";

TEST_F(IdleStepsTest, WithoutALabelInThem) {
  const std::vector<Words> stages = {{"stage=sft", "dataset=talks"},
                                     {"stage=pt", "dataset=texts"},
                                     {"stage=dpo", "dataset=pairs"},
                                     {"stage=kto", "dataset=judged"}};
  for (const Words& stage : stages) {
    SCOPED_TRACE(stage[0]);
    const std::string out = stage[0].substr(6);
    ExpectStepsTwoAndThreeAreLeftOut(Run(CommandOf("labels", out, stage)), out, kAlone);
  }
}

// The losses of pairs have terms that do not depend on labels (a margin, a gap, an odds ratio), and
// BCO's running mean changes with the examples of a step; a skipped step must ignore both.
TEST_F(IdleStepsTest, WhateverThePairsLossIs) {
  for (const std::string loss : {"orpo", "simpo", "hinge", "ipo", "kto_pair"}) {
    SCOPED_TRACE(loss);
    const Words stage = {"stage=dpo", "dataset=pairs", "pref_loss=" + loss};
    ExpectStepsTwoAndThreeAreLeftOut(Run(CommandOf("labels", loss, stage)), loss, kAlone);
  }
  const Words stage = {"stage=dpo", "dataset=pairs", "pref_bco_weight=0.5"};
  ExpectStepsTwoAndThreeAreLeftOut(Run(CommandOf("labels", "bco", stage)), "bco", kAlone);
  const auto remembered = [&](int step) {
    return json::parse(Saved("bco", step, "training_state.json")).at("parts").at("objective");
  };
  EXPECT_EQ(remembered(1), remembered(2));
  EXPECT_EQ(remembered(1), remembered(3));
  EXPECT_NE(remembered(3), remembered(4));
}

// With sequence parallelism, and with ZeRO.
TEST_F(IdleStepsTest, OverSeveralRanks) {
  const Words stage = {"stage=sft", "dataset=talks"};
  Words ring = stage;
  ring.push_back("sequence_parallel_size=2");
  ExpectStepsTwoAndThreeAreLeftOut(Run(CommandOf("labels", "ring", ring)), "ring", kAlone);
  Words zero = {"-n", "2"};
  for (const std::string& word : CommandOf("labels", "zero", stage)) zero.push_back(word);
  zero.push_back("zero_stage=3");
  zero.push_back("per_device_train_batch_size=1");
  ExpectStepsTwoAndThreeAreLeftOut(Run(zero), "zero", "states-00002-of-00002.safetensors");
}

// Pairs and kto rows are counted as examples: a reward model also trains on rows without labels.
TEST_F(IdleStepsTest, WithoutARowInThem) {
  const std::vector<Words> stages = {{"stage=rm", "dataset=pairs"},
                                     {"stage=dpo", "dataset=pairs"},
                                     {"stage=kto", "dataset=judged"}};
  for (const Words& stage : stages) {
    SCOPED_TRACE(stage[0]);
    const std::string out = stage[0].substr(6);
    ExpectStepsTwoAndThreeAreLeftOut(Run(CommandOf("rows", out, stage)), out, kAlone,
                                     "no example in it");
  }
}

// Any number of steps without a target may follow one another; ten consecutive non-finite steps end
// a run.
TEST_F(IdleStepsTest, AreNoReasonToStop) {
  const Words more = {"stage=sft", "dataset=talks", "on_nonfinite=skip", "max_steps=14",
                      "save_strategy=no"};
  ASSERT_THAT(Run(CommandOf("labels", "out", more, 13)), Succeeds());
  EXPECT_EQ(StepLine("out", 14).at("skipped_steps"), 12);
  EXPECT_TRUE(StepLine("out", 14).contains("loss"));
}

}  // namespace
}  // namespace moonring::testing
