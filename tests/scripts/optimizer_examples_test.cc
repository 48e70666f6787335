// The examples of optimizers, a schedule and averaged weights (scripts/examples) equal a second
// implementation, and do not depend on the number of ranks.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

class OptimizerExamplesTest : public ResumedRuns {
 protected:
  static std::string Example(const std::string& name) {
    return Runfile("scripts/examples/" + name + ".lua");
  }
  StoredTensors Model(const std::string& folder) const {
    return ReadSafetensors(Path(folder + "/model.safetensors"));
  }
  void ExpectNear(const StoredTensors& ours, const StoredTensors& theirs, double bound) const {
    ASSERT_EQ(ours.size(), theirs.size());
    for (const auto& [name, tensor] : theirs)
      EXPECT_LE(RelativeDistance(ours.at(name).values, tensor.values), bound) << name;
  }
  // Returns the command with a script instead of `train`.
  Words By(const std::string& script, Words command) const {
    *std::find(command.begin(), command.end(), "train") = script;
    return command;
  }

  struct Shape {
    std::string name;
    Words words, options;
  };
  const std::vector<Shape> shapes_ = {
      {"sp2", {"sequence_parallel_size=2"}, {}},
      {"dp2", {"per_device_train_batch_size=1"}, {"-n", "2"}},
      {"sp2zero3", {"sequence_parallel_size=2", "zero_stage=3"}, {}}};
};

// Compares tall, wide and square matrices with torch's Muon. A bf16 product may be summed in
// another order on another machine, so the bound is a hundredth of the distance that a matrix has
// moved.
TEST_F(OptimizerExamplesTest, MuonIsTorchs) {
  Write("check.lua", R"lua(
    local moonring = require "moonring"
    local golden = moonring.system.json_decode(moonring.system.read(arg[1]))
    local rule = dofile(arg[2]) { adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-8,
      weight_decay = golden.weight_decay }
    assert(#golden.cases == 4 and #golden.lrs == 8)
    for _, case in ipairs(golden.cases) do
      local p = { name = "model.layers.0.mlp.up_proj.weight", shape = case.shape, ndim = 2,
        decays = true, whole = true, weight = moonring.tensor(case.start) }
      function p:zeros() return self.weight:zeros_like() end
      assert(rule.whole(p))
      local start, state = moonring.tensor(case.start), rule.state(p)
      for k, lr in ipairs(golden.lrs) do
        rule.step(p, moonring.tensor(case.gradients[k]), state, lr, k)
        local wanted = moonring.tensor(case.weights[k])
        local distance = (p.weight - wanted):norm():item() / (wanted - start):norm():item()
        assert(distance < 1e-2, ("step %d: %g"):format(k, distance))
      end
    end
    assert(not rule.whole { name = "model.embed_tokens.weight", ndim = 2 })
    assert(not rule.whole { name = "model.layers.0.input_layernorm.weight", ndim = 1 })
  )lua");
  EXPECT_THAT(Run({"check.lua", Runfile("tests/trainer/golden/muon.json"), Example("muon")}),
              Succeeds());
}

// In fp64, because there no sum of gradients is so close to 0 that its sign could change. Muon
// orthogonalizes in bf16, where another order of sums may change the rounding: its bound is a
// thousandth of the change of three steps.
TEST_F(OptimizerExamplesTest, AreTheSameOnAnyRanks) {
  for (const std::string name : {"sign_sgd", "muon"}) {
    const Words words = {"optim=" + Example(name),
                         "lr_scheduler_type=" + Example("custom_schedule"), "max_steps=3",
                         "save_strategy=no", "fp64=true"};
    ASSERT_THAT(Train(name, words), Succeeds());
    for (const Shape& shape : shapes_) {
      const std::string out = name + "_" + shape.name;
      SCOPED_TRACE(out);
      ASSERT_THAT(Train(out, words + shape.words, shape.options), Succeeds());
      ExpectNear(Model(out), Model(name), name == "muon" ? 1e-5 : 1e-7);
      const auto ours = Steps(out), theirs = Steps(name);
      ASSERT_EQ(ours.size(), 3u);
      for (size_t i = 0; i < 3; ++i)
        EXPECT_NEAR(ours[i].at("loss").get<double>(), theirs[i].at("loss").get<double>(),
                    name == "muon" ? 1e-5 : 1e-10);
    }
  }
  ExpectResumes("resumed", {"optim=" + Example("muon"), "max_steps=3"}, {1});
}

TEST_F(OptimizerExamplesTest, TheScheduleRisesStaysAndFalls) {
  ASSERT_THAT(Train("out", {"lr_scheduler_type=" + Example("custom_schedule"), "max_steps=20",
                            "learning_rate=1e-3", "save_strategy=no", "optim=sgd"}),
              Succeeds());
  const auto steps = Steps("out");
  ASSERT_EQ(steps.size(), 20u);
  for (int k = 0; k < 20; ++k) {
    const double part = k < 2 ? (k + 1) / 2.0 : k < 16 ? 1.0 : 0.1 + 0.9 * (20 - k) / 4.0;
    EXPECT_NEAR(steps[k].at("lr").get<double>(), 1e-3 * part, 1e-12) << k;
  }
}

// The averaged weights equal the average of the checkpoints' weights. The evaluation uses them, a
// resumed run is bit-identical, and they do not depend on the number of ranks.
TEST_F(OptimizerExamplesTest, AveragedWeightsAreThoseOfTheCheckpoints) {
  const Words words = {"decay=0.6",           "max_steps=4",  "val_size=6",
                       "eval_strategy=steps", "eval_steps=2", "lr_scheduler_type=constant"};
  const auto averaged = [&](const std::string& out, const Words& more = {},
                            const Words& options = {}) {
    return Run(By(Example("ema"), CommandOf(out, words + more, options)));
  };
  ASSERT_THAT(averaged("ema"), Succeeds());
  StoredTensors average = Model("ema/checkpoint-1");
  for (int step = 2; step <= 4; ++step) {
    for (const auto& [name, now] : Model("ema/checkpoint-" + std::to_string(step))) {
      for (size_t i = 0; i < now.values.size(); ++i)
        average[name].values[i] = 0.6f * average[name].values[i] + 0.4f * now.values[i];
    }
  }
  ExpectNear(Model("ema"), average, 3e-7);
  EXPECT_GT(RelativeDistance(Model("ema/checkpoint-4").begin()->second.values,
                             average.begin()->second.values),
            1e-5);
  // An evaluation during the training uses the average as well: it logs the same loss as the one at
  // the end, when the average has replaced the model's weights.
  const double loss = ReadJson(Path("ema/eval_results.json")).at("eval_loss").get<double>();
  std::vector<double> logged;
  for (const auto& line : Lines("ema")) {
    if (line.contains("eval_loss")) logged.push_back(line.at("eval_loss").get<double>());
  }
  ASSERT_GE(logged.size(), 2);
  EXPECT_EQ(logged.back(), loss);
  EXPECT_NEAR(logged[logged.size() - 2], loss, 1e-6);
  // Averaging does not change the training itself.
  ASSERT_THAT(Train("plain", {"max_steps=4", "val_size=6", "lr_scheduler_type=constant"}),
              Succeeds());
  EXPECT_TRUE(ReadText(Path("plain/model.safetensors")) ==
              ReadText(Path("ema/checkpoint-4/model.safetensors")));

  KeepUpTo("ema", 2, "again");
  ASSERT_THAT(averaged("again", {"resume_from_checkpoint=true"}), Succeeds());
  EXPECT_TRUE(ReadText(Path("again/model.safetensors")) == ReadText(Path("ema/model.safetensors")));
  for (const Shape& shape : shapes_) {
    SCOPED_TRACE(shape.name);
    ASSERT_THAT(averaged(shape.name, shape.words, shape.options), Succeeds());
    ExpectNear(Model(shape.name), average, 1e-5);
  }
}

}  // namespace
}  // namespace moonring::testing
