// Training in fp16 with a loss scale, compared with PyTorch's autocast and GradScaler
// (tests/golden/fp16): gradients, twenty steps, and overflowing steps, which are skipped, on one
// rank and on several.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

double RelativeDifference(double a, double b) { return std::fabs(a - b) / std::fabs(b); }

class Fp16Test : public ResumedRuns {
 protected:
  static json Golden(const std::string& name) {
    return ReadJson(Runfile("tests/golden/fp16/" + name));
  }

  // Trains with a script instead of the `train` command.
  CommandResult TrainBy(const Words& script, const std::string& out, const Words& more,
                        const Words& options = {}) const {
    Words command = CommandOf(out, more, options);
    const auto train = std::find(command.begin(), command.end(), "train");
    const auto at = command.erase(train);
    Words words = script;
    words[0] = Runfile("tests/scripts/" + words[0]);
    command.insert(at, words.begin(), words.end());
    return Run(command);
  }

  // Trains with a non-finite gradient in every step that contains example 5: steps 2, 12, ...
  CommandResult TrainPoisoned(const std::string& out, const Words& more,
                              const Words& options = {}) const {
    return TrainBy({"faulty_example.lua", "gradient", "5"}, out,
                   Words{"fp16=true", "disable_shuffling=true"} + more, options);
  }

  json StepLine(const std::string& out, int step) const {
    for (const json& line : Lines(out)) {
      if (line.at("current_steps") == step) return line;
    }
    ADD_FAILURE() << out << " has no step " << step;
    return json::object();
  }
};

// The error of each weight's gradient, and of all together, compared with fp64, is at most three
// times PyTorch's.
TEST_F(Fp16Test, GradientsAreAsExactAsPyTorchs) {
  const json models = Golden("gradients.json");
  for (const auto& [path, golden] : models.items()) {
    const size_t slash = path.find('/');
    const std::string model = path.substr(0, slash), name = path.substr(slash + 1),
                      folder = Runfile("tests/golden/model/" + model);
    json exact;
    const json cases = ReadJson(folder + "/golden.json").at("cases");
    for (const json& each : cases) {
      if (each.at("name") != name) continue;
      exact = each.at("gradients");
      Write("in.json", each.at("input").dump());
    }
    for (const std::string ranks : {"1", "2", "3"}) {
      SCOPED_TRACE(path + " on " + ranks);
      const CommandResult result =
          Run({"probe", "model_name_or_path=" + folder, "input=in.json", "out=out.json",
               "grads=grads.safetensors", "fp16=true", "sequence_parallel_size=" + ranks});
      ASSERT_THAT(result, Succeeds());
      const StoredTensors found = ReadSafetensors(Path("grads.safetensors"));
      ASSERT_EQ(found.size(), exact.size());
      double off = 0, all = 0, worst = 0;
      for (const auto& [weight, want] : exact.items()) {
        const double error = SketchedErrorOf(GradientIn(found, weight), want),
                     norm = want.at("norm"), theirs = golden.at("each").at(weight);
        EXPECT_LE(error, 3 * theirs) << weight;
        worst = std::max(worst, error / theirs);
        off += std::pow(error * norm, 2.0), all += norm * norm;
      }
      const double error = std::sqrt(off / all), theirs = golden.at("all").get<double>();
      EXPECT_LE(error, 3 * theirs);
      std::printf(
          "%s on %s: off by %.2e, PyTorch's by %.2e; the worst weight is %.2f times as "
          "far off\n",
          path.c_str(), ranks.c_str(), error, theirs, worst);
    }
  }
}

// Losses and gradient norms differ from fp32 by at most three times as much as PyTorch's; learning
// rates, loss scales and skipped steps equal PyTorch's.
TEST_F(Fp16Test, TwentyStepsAsPyTorchs) {
  const json golden = Golden("curves.json"), &fp32 = golden.at("fp32"), &fp16 = golden.at("fp16");
  const auto poisoned = golden.at("poisoned").get<std::vector<int>>();
  const Words words = {"max_steps=20", "lr_scheduler_type=linear", "weight_decay=0",
                       "save_strategy=no"};
  struct Shape {
    std::string name;
    Words more, options;
  };
  const std::vector<Shape> shapes = {
      {"one", {}, {}},
      {"sp2", {"sequence_parallel_size=2"}, {}},
      {"dp2", {"per_device_train_batch_size=1"}, {"-n", "2"}},
      {"zero3",
       {"sequence_parallel_size=2", "per_device_train_batch_size=1", "zero_stage=3"},
       {"-n", "4"}},
      {"held", {"cast_weights=step", "zero_stage=2", "per_device_train_batch_size=1"}, {"-n", "2"}},
  };
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(shape.name);
    const CommandResult result = TrainPoisoned(shape.name, words + shape.more, shape.options);
    ASSERT_THAT(result, Succeeds());
    EXPECT_THAT(result.err, HasSubstr("the gradient overflows fp16 under a loss scale of 65536; "
                                      "the step is skipped, the scale is 32768"));
    double loss_off = 0, loss_theirs = 0, norm_off = 0, norm_theirs = 0;
    size_t skipped = 0;
    for (int k = 1; k <= 20; ++k) {
      SCOPED_TRACE(k);
      const json line = StepLine(shape.name, k), &exact = fp32[k - 1], &theirs = fp16[k - 1];
      const bool left_out = std::count(poisoned.begin(), poisoned.end(), k) > 0;
      skipped += left_out ? 1 : 0;
      EXPECT_EQ(line.contains("grad_norm"), !left_out);
      EXPECT_EQ(line.contains("grad_norm"), theirs.contains("grad_norm"));
      EXPECT_EQ(line.at("loss_scale"), theirs.at("loss_scale"));
      EXPECT_LE(RelativeDifference(line.at("lr"), theirs.at("lr")), 1e-12);
      if (skipped > 0) {
        EXPECT_EQ(line.at("skipped_steps"), skipped);
      }
      loss_off = std::max(loss_off, RelativeDifference(line.at("loss"), exact.at("loss")));
      loss_theirs = std::max(loss_theirs, RelativeDifference(theirs.at("loss"), exact.at("loss")));
      if (left_out) continue;
      norm_off =
          std::max(norm_off, RelativeDifference(line.at("grad_norm"), exact.at("grad_norm")));
      norm_theirs =
          std::max(norm_theirs, RelativeDifference(theirs.at("grad_norm"), exact.at("grad_norm")));
    }
    EXPECT_EQ(skipped, poisoned.size());
    EXPECT_LE(loss_off, 3 * loss_theirs);
    EXPECT_LE(norm_off, 3 * norm_theirs);
    std::printf("%s: losses off by %.1e, PyTorch's by %.1e; norms by %.1e, %.1e\n",
                shape.name.c_str(), loss_off, loss_theirs, norm_off, norm_theirs);
  }
}

// A step that overflows leaves the weights and AdamW's state unchanged.
TEST_F(Fp16Test, AnOverflowLeavesNoTrace) {
  for (const std::string sp : {"1", "2"}) {
    const std::string out = "out" + sp;
    // -n sets the number of ranks; without it there would be one per GPU.
    ASSERT_THAT(TrainPoisoned(out, {"max_steps=3", "sequence_parallel_size=" + sp}, {"-n", sp}),
                Succeeds());
    const auto saved = [&](int step, const std::string& file) {
      return ReadText(Path(out + "/checkpoint-" + std::to_string(step) + "/" + file));
    };
    for (const std::string file : {"model.safetensors", "states-00001-of-00001.safetensors"}) {
      EXPECT_TRUE(saved(1, file) == saved(2, file)) << file;
      EXPECT_FALSE(saved(2, file) == saved(3, file)) << file;
    }
    double mean = 0;  // its loss is a loss like any other
    for (const int step : {1, 2, 3}) mean += StepLine(out, step).at("loss").get<double>() / 3;
    EXPECT_NEAR(ReadJson(Path(out + "/train_results.json")).at("train_loss").get<double>(), mean,
                1e-12);
  }
}

// In fp32 nothing overflows, and scaling by a power of two is exact: gradients are bit-identical
// with and without a loss scale.
TEST_F(Fp16Test, AScaledLossInFp32MovesNoBit) {
  struct Case {
    std::string name;
    Words words, options;
  };
  const std::string home = Runfile("tests/golden/stages");
  const std::vector<Case> cases = {
      {"sft", {}, {}},
      {"unclipped", {"max_grad_norm=0"}, {}},
      {"chunks", {"logit_rows=64", "label_smoothing_factor=0.1"}, {}},
      {"sp2", {"sequence_parallel_size=2"}, {}},
      {"zero2", {"zero_stage=2", "per_device_train_batch_size=1"}, {"-n", "2"}},
      {"offloaded", {"offload_optimizer=cpu", "zero_stage=1"}, {}},
      {"lora", {"finetuning_type=lora", "loraplus_lr_ratio=4"}, {}},
      {"dpo", {"stage=dpo", "dataset=pairs", "pref_ftx=0.5"}, {}},
      {"kto", {"stage=kto", "dataset=judged"}, {}},
      {"rm", {"stage=rm", "dataset=pairs"}, {}},
      {"experts", {"model_name_or_path=" + home + "/model_moe", "moe_aux_loss_coef=0.1"}, {}},
      {"zclip", {"spike_clip=zclip", "optim=lion_32bit"}, {}},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const Words words = each.words + Words{"max_steps=4", "save_strategy=no"};
    ASSERT_THAT(Train(each.name, words, each.options), Succeeds());
    const std::string scaled = each.name + "_scaled";
    ASSERT_THAT(TrainBy({"scaled_run.lua"}, scaled, words, each.options), Succeeds());
    for (const char* file : {"model.safetensors", "adapter_model.safetensors"}) {
      if (!std::filesystem::exists(Path(each.name + "/" + file))) continue;
      EXPECT_TRUE(ReadText(Path(each.name + "/" + file)) == ReadText(Path(scaled + "/" + file)))
          << file;
    }
    json lines = Lines(scaled);
    for (json& line : lines) {
      EXPECT_EQ(line.value("loss_scale", 65536.0), 65536.0);
      line.erase("loss_scale");
    }
    EXPECT_EQ(lines, Lines(each.name));
  }
}

// DPO with a large beta: at first the gradients exceed the range of fp16, on all ranks in the same
// steps.
TEST_F(Fp16Test, OverflowsOfTheirOwnAreTheSameOnAllRanks) {
  const Words words = {"fp16=true",   "stage=dpo",        "dataset=pairs",     "pref_beta=20",
                       "max_steps=8", "save_strategy=no", "learning_rate=1e-5"};
  ASSERT_THAT(Train("one", words), Succeeds());
  EXPECT_EQ(StepLine("one", 1).at("skipped_steps"), 1);
  EXPECT_LT(StepLine("one", 8).at("loss_scale").get<double>(), 65536.0);
  EXPECT_TRUE(StepLine("one", 8).contains("grad_norm"));
  const auto same = [&](const std::string& out, const Words& more, const Words& options) {
    SCOPED_TRACE(out);
    ASSERT_THAT(Train(out, words + more, options), Succeeds());
    for (int k = 1; k <= 8; ++k) {
      const json line = StepLine(out, k), wanted = StepLine("one", k);
      EXPECT_EQ(line.at("loss_scale"), wanted.at("loss_scale")) << k;
      EXPECT_EQ(line.value("skipped_steps", 0), wanted.value("skipped_steps", 0)) << k;
      EXPECT_EQ(line.at("lr"), wanted.at("lr")) << k;
      // Log-ratios are rounded in fp16, and the error is multiplied by beta.
      EXPECT_LE(RelativeDifference(line.at("loss"), wanted.at("loss")), 0.15) << k;
    }
  };
  same("sp2", {"sequence_parallel_size=2"}, {});
  same("dp2", {"per_device_train_batch_size=1", "zero_stage=2"}, {"-n", "2"});
  same("held", {"cast_weights=step", "recompute=none"}, {});
}

TEST_F(Fp16Test, ANonFiniteLossStopsTheRun) {
  const CommandResult loss = TrainBy({"faulty_example.lua", "loss", "5"}, "loss",
                                     {"fp16=true", "disable_shuffling=true", "max_steps=4"});
  EXPECT_EQ(loss.exit_code, 1) << loss.Describe();
  EXPECT_THAT(loss.err, AllOf(HasSubstr("step 2: the loss is "),
                              HasSubstr("stopped before the update"), Not(HasSubstr("step 3"))));
}

// Every step contains the faulty example, so no loss scale helps: the run stops with one line that
// states this.
TEST_F(Fp16Test, WhatOverflowsUnderEveryScaleStopsTheRun) {
  const CommandResult result =
      TrainPoisoned("out", {"max_samples=8", "max_steps=60", "per_device_train_batch_size=8",
                            "gradient_accumulation_steps=1", "save_strategy=no"});
  EXPECT_EQ(result.exit_code, 1) << result.Describe();
  EXPECT_THAT(result.err, AllOf(HasSubstr("step 41, examples 0, 1, 2, 3, 4, 5, 6, 7 of the data"),
                                HasSubstr("it overflows whatever the loss scale, which was "
                                          "5.96046e-08: stopped before the update")));
}

// A custom training loop scales its loss with the run's backward function, or gets an error that
// explains this.
TEST_F(Fp16Test, ACustomLoop) {
  const Words words = {"fp16=true", "max_steps=3", "save_strategy=no"};
  ASSERT_THAT(Train("train", words), Succeeds());
  ASSERT_THAT(TrainBy({"custom_scaled_loop.lua", "scaled"}, "own", words), Succeeds());
  EXPECT_TRUE(ReadText(Path("train/model.safetensors")) == ReadText(Path("own/model.safetensors")));
  const CommandResult unscaled = TrainBy({"custom_scaled_loop.lua", "unscaled"}, "unscaled", words);
  EXPECT_NE(unscaled.exit_code, 0);
  EXPECT_THAT(unscaled.err,
              HasSubstr("fp16: expected run.updates:backward(loss, joined) in place of "
                        "loss:backward(joined)"));
  ASSERT_THAT(TrainBy({"custom_scaled_loop.lua", "unscaled"}, "fp32", {"max_steps=3"}), Succeeds());
}

}  // namespace
}  // namespace moonring::testing
