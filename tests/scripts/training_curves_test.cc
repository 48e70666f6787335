// Trains SmolLM2 with the settings of a LLaMA-Factory run (tests/golden/train) and compares losses,
// gradient norms, learning rates and epochs at each step. All but two of the runs take minutes and
// are a separate target.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;

class TrainingCurvesTest : public Workplace, public ::testing::WithParamInterface<std::string> {};

double CurveDistance(const json& a, const json& b) {
  return std::fabs(a.get<double>() - b.get<double>()) / std::max(std::fabs(b.get<double>()), 1e-12);
}

// LLaMA-Factory's own runs differ by 1e-6 (noise.json) when only its micro-batches or threads
// change. Another processor sums in yet another order: without AVX-512 a loss differs by 1.04e-5.
TEST_P(TrainingCurvesTest, IsThePeers) {
  const std::string golden = Runfile("tests/golden/train/" + GetParam());
  const char* alpaca = std::getenv("MOONRING_ALPACA");  // a folder with LLaMA-Factory's own data
  const bool own = GetParam().rfind("own_", 0) == 0;
  if (!own && alpaca == nullptr)
    GTEST_SKIP() << "MOONRING_ALPACA names no folder with alpaca_en_demo";
  ASSERT_THAT(
      Run({"train", golden + ".yaml", "model_name_or_path=builtin:smollm2", "output_dir=out",
           "dataset_dir=" + (own ? Runfile("tests/golden/preprocess/data") : std::string(alpaca))}),
      Succeeds());
  std::map<int, json> ours;
  for (const json& line : ReadJsonLines(Path("out/trainer_log.jsonl"))) {
    if (line.contains("loss")) ours[line.at("current_steps")] = line;
  }
  const json theirs = ReadJson(golden + ".json");
  ASSERT_EQ(ours.size(), theirs.at("steps").size());
  double worst_loss = 0, worst_norm = 0;
  for (const json& want : theirs.at("steps")) {
    ASSERT_TRUE(ours.contains(want.at("step"))) << want.at("step");
    const json& got = ours.at(want.at("step"));
    SCOPED_TRACE("step " + want.at("step").dump());
    EXPECT_LE(CurveDistance(got.at("lr"), want.at("lr")), 1e-9);
    EXPECT_LE(CurveDistance(got.at("epoch"), want.at("epoch")), 1e-9);
    worst_loss = std::max(worst_loss, CurveDistance(got.at("loss"), want.at("loss")));
    if (!want.at("grad_norm").is_null())
      worst_norm = std::max(worst_norm, CurveDistance(got.at("grad_norm"), want.at("grad_norm")));
  }
  EXPECT_LE(worst_loss, 3e-5);
  EXPECT_LE(worst_norm, 1e-4);
  EXPECT_LE(CurveDistance(ReadJson(Path("out/train_results.json")).at("train_loss"),
                          theirs.at("train_loss")),
            1e-5);
  std::printf("%s: worst relative distance of a loss %.1e, of a gradient's norm %.1e\n",
              GetParam().c_str(), worst_loss, worst_norm);
}

INSTANTIATE_TEST_SUITE_P(All, TrainingCurvesTest,
                         ::testing::Values("own_linear_decay", "own_prompt_sgd", "own_clip",
                                           "own_sft", "own_shuffled", "sft_alpaca"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace moonring::testing
