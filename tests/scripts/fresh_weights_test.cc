// `train_from_scratch` as a command: a folder without weights gets the same initial values on any
// number of ranks and with any sharding, and the training reduces the loss.

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

class FreshWeightsTest : public Workplace {
 protected:
  FreshWeightsTest() {
    WriteModel("model");
    WriteConfig();
    fs::remove(Path("model/model.safetensors"));
  }

  CommandResult Train(const std::string& out, std::vector<std::string> more,
                      std::vector<std::string> options = {}) const {
    options.insert(options.end(),
                   {"train", "config.yaml", "output_dir=" + out, "train_from_scratch=true"});
    options.insert(options.end(), more.begin(), more.end());
    return Run(options);
  }

  std::vector<double> Losses(const std::string& out) const {
    std::vector<double> losses;
    for (const json& line : ReadJsonLines(Path(out + "/trainer_log.jsonl"))) {
      if (line.contains("loss")) losses.push_back(line.at("loss"));
    }
    return losses;
  }
};

TEST_F(FreshWeightsTest, TrainsAFolderWithoutWeights) {
  const CommandResult result =
      Train("out", {"max_steps=40", "learning_rate=1e-2", "lr_scheduler_type=constant"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err, HasSubstr("train_from_scratch: the weights are made by model/config.json "
                                    "and seed 42; no file of weights is read"));
  const std::vector<double> losses = Losses("out");
  EXPECT_NEAR(losses.front(), std::log(675.0), 0.1);  // ln 675: all 675 ids are equally likely
  EXPECT_LT(losses.back(), 0.5 * losses.front());
  // The saved model can be trained like any other model.
  ASSERT_THAT(Run({"train", "config.yaml", "model_name_or_path=out", "output_dir=on"}), Succeeds());
  EXPECT_LT(Losses("on").front(), 0.6 * losses.front());
  EXPECT_THAT(Run({"train", "config.yaml", "output_dir=none"}),
              FailsWith(2, HasSubstr("model: no model.safetensors and no pytorch_model.bin")));
}

TEST_F(FreshWeightsTest, AreTheSameForAnyRanks) {
  const std::vector<std::string> still = {"max_steps=1", "learning_rate=0", "save_strategy=no"};
  const auto weights = [&](const std::string& out, std::vector<std::string> more,
                           const std::vector<std::string>& options = {}) {
    more.insert(more.begin(), still.begin(), still.end());
    EXPECT_THAT(Train(out, more, options), Succeeds());
    return ReadText(Path(out + "/model.safetensors"));
  };
  const std::string one = weights("one", {});
  EXPECT_TRUE(weights("sp", {"sequence_parallel_size=2"}, {"-n", "2"}) == one);
  EXPECT_TRUE(weights("zero1", {"zero_stage=1"}, {"-n", "2"}) == one);
  EXPECT_TRUE(weights("zero3", {"zero_stage=3"}, {"-n", "3"}) == one);
  EXPECT_TRUE(weights("zero3_sp", {"zero_stage=3", "sequence_parallel_size=2"}, {"-n", "4"}) ==
              one);
  EXPECT_FALSE(weights("seed", {"seed=43"}) == one);
  // bf16 weights are the fp32 initial values, rounded.
  const StoredTensors whole = ReadSafetensors(Path("one/model.safetensors"));
  for (const auto& [name, tensor] : whole) {
    const bool norm = name.find("norm") != std::string::npos;
    for (const float value : tensor.values)
      ASSERT_TRUE(norm ? value == 1.0f : value < 1.0f) << name;
  }
}

TEST_F(FreshWeightsTest, OtherKeysGoWithIt) {
  ASSERT_THAT(Train("freeze", {"finetuning_type=freeze", "freeze_trainable_layers=1"}), Succeeds());
  ASSERT_THAT(Train("bf16", {"pure_bf16=true"}), Succeeds());
  ASSERT_THAT(Train("grown", {"add_tokens=<one>,<two>"}), Succeeds());
  // probe computes with the initial weights of the training.
  Write("in.json",
        R"({"input_ids": [1, 2, 3, 4, 5], "labels": [1, 2, 3, 4, 5], "positions": [3]})");
  ASSERT_THAT(Train("still", {"max_steps=1", "learning_rate=0"}), Succeeds());
  ASSERT_THAT(Run({"probe", "model_name_or_path=still", "input=in.json", "out=saved.json"}),
              Succeeds());
  ASSERT_THAT(Run({"probe", "model_name_or_path=model", "train_from_scratch=true", "input=in.json",
                   "out=fresh.json"}),
              Succeeds());
  EXPECT_EQ(ReadJson(Path("fresh.json")).at("loss"), ReadJson(Path("saved.json")).at("loss"));
}

TEST_F(FreshWeightsTest, AdaptersAndOtherFilesAreRefused) {
  EXPECT_THAT(Train("out", {"finetuning_type=lora"}),
              FailsWith(2, HasSubstr("train_from_scratch: an adapter does not teach weights that "
                                     "know nothing; expected finetuning_type: full or freeze, got "
                                     "lora")));
  EXPECT_THAT(Train("out", {"finetuning_type=oft"}), FailsWith(2, HasSubstr("freeze, got oft")));
  EXPECT_THAT(
      Train("out", {"quantization_bit=4"}),
      FailsWith(2, HasSubstr("quantization_bit is for finetuning_type lora and oft alone")));
  fs::remove(Path("model/config.json"));
  EXPECT_THAT(Train("out", {}),
              FailsWith(2, HasSubstr("model: fresh weights are made by a config.json")));
}

}  // namespace
}  // namespace moonring::testing
