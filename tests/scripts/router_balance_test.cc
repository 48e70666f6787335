// moe_aux_loss_coef in dpo and kto: the loss and all gradients of a step equal those of TRL's
// trainers (tests/golden/router_balance), on one rank, with sp 2, with dp 2 and with ZeRO-3.
//
// Both compute in fp64, except the router's softmax, which Transformers computes in fp32. The
// bounds are 2e-6 of a gradient (5e-7 is observed) and 1e-8 of the loss. Between numbers of ranks
// only the order of sums differs: 1e-10.

#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class RouterBalanceTest : public Workplace {
 protected:
  struct Step {
    json numbers;
    StoredTensors gradients;
  };

  // Trains the first step of a stage into `out`, with four examples on any number of ranks.
  Step First(const std::string& stage, int ranks, const json& more) const {
    const std::string stages = Runfile("tests/golden/stages");
    json keys = {{"model_name_or_path", stages + "/model_moe"},
                 {"dataset_dir", stages + "/data"},
                 {"dataset", stage == "dpo" ? "pairs" : "judged"},
                 {"stage", stage},
                 {"finetuning_type", "full"},
                 {"template", "chatml"},
                 {"cutoff_len", 160},
                 {"max_steps", 1},
                 {"per_device_train_batch_size", 2},
                 {"gradient_accumulation_steps", 2},
                 {"disable_shuffling", true},
                 {"output_dir", "run"},
                 {"overwrite_output_dir", true},
                 {"use_cpu", true},
                 {"fp64", true},
                 {"moe_aux_loss_coef", 0.3}};
    keys.update(more);
    Write("config.yaml", keys.dump());
    Write("out/step.json", "{}");
    EXPECT_THAT(Run({"-n", std::to_string(ranks), Runfile("tests/scripts/router_gradients.lua"),
                     "config=config.yaml", "out=out"}),
                Succeeds());
    return {ReadJson(Path("out/step.json")), ReadSafetensors(Path("out/gradients.safetensors"))};
  }
};

TEST_F(RouterBalanceTest, DpoAndKtoTrainAsTrl) {
  const std::string golden = Runfile("tests/golden/router_balance");
  for (const std::string stage : {"dpo", "kto"}) {
    const json theirs = ReadJson(golden + "/" + stage + ".json");
    const json& wanted = theirs.at("gradients");
    const json sp = {{"sequence_parallel_size", 2}}, dp = {{"gradient_accumulation_steps", 1}},
               sharded = {{"gradient_accumulation_steps", 1}, {"zero_stage", 3}};
    double alone = 0;
    for (const auto& [ranks, more] :
         std::vector<std::pair<int, json>>{{1, json::object()}, {2, sp}, {2, dp}, {2, sharded}}) {
      SCOPED_TRACE(stage + " on " + std::to_string(ranks) + " ranks, " + more.dump());
      const Step ours = First(stage, ranks, more);
      const double loss = ours.numbers.at("loss"), norm = ours.numbers.at("grad_norm");
      EXPECT_NEAR(loss, theirs.at("loss"), 1e-8 * loss);
      EXPECT_NEAR(norm, theirs.at("grad_norm"), 2e-6 * norm);
      if (ranks == 1) alone = loss;
      EXPECT_NEAR(loss, alone, 1e-10 * loss);
      ASSERT_EQ(ours.gradients.size(), wanted.size());
      for (const auto& [name, gradient] : wanted.items())
        EXPECT_TRUE(SketchedError(GradientIn(ours.gradients, name), gradient, 2e-6));
    }
    const json plain = First(stage, 1, {{"moe_aux_loss_coef", nullptr}}).numbers;
    EXPECT_GT(std::abs(plain.at("loss").get<double>() - alone), 0.1);  // it is there to be seen
  }
}

// Evaluation uses batches of one example, so that its loss is per row and the same on two ranks.
TEST_F(RouterBalanceTest, IsInEvaluations) {
  const auto evaluate = [&](const json& more) {
    const std::string stages = Runfile("tests/golden/stages");
    json keys = {{"model_name_or_path", stages + "/model_moe"},
                 {"dataset_dir", stages + "/data"},
                 {"dataset", "pairs"},
                 {"stage", "dpo"},
                 {"finetuning_type", "full"},
                 {"template", "chatml"},
                 {"max_samples", 6},
                 {"val_size", 3},
                 {"max_steps", 1},
                 {"learning_rate", 0},
                 {"eval_strategy", "steps"},
                 {"per_device_eval_batch_size", 1},
                 {"output_dir", "run"},
                 {"overwrite_output_dir", true},
                 {"save_strategy", "no"},
                 {"use_cpu", true},
                 {"fp64", true}};
    keys.update(more);
    Write("config.yaml", keys.dump());
    EXPECT_THAT(
        Run({"-n", keys.contains("sequence_parallel_size") ? "2" : "1", "train", "config.yaml"}),
        Succeeds());
    return ReadJson(Path("run/eval_results.json")).at("eval_loss").get<double>();
  };
  const double plain = evaluate(json::object()), balanced = evaluate({{"moe_aux_loss_coef", 0.3}});
  EXPECT_GT(balanced - plain, 0.3);  // the loss of even experts is the coefficient times K, 2 here
  EXPECT_NEAR(evaluate({{"moe_aux_loss_coef", 0.3}, {"sequence_parallel_size", 2}}), balanced,
              1e-10 * balanced);
}

}  // namespace
}  // namespace moonring::testing
