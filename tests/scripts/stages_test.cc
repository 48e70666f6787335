// `moonring train` equals LLaMA-Factory's runs with the same keys (tests/golden/stages): every
// stage, loss and kind of fine-tuning.
//
// Both compute in fp32 and sum in different orders. The bound of a step's loss and gradient norm is
// 2e-5 relative: AdamW carries the rounding of one step (1e-7) into the next, and divides by
// gradients that may be near zero; 1.1e-5 is observed after eight steps, 1e-6 after one. Rewards
// are beta times differences of log-probs of several hundred, whose last bit in fp32 is 3e-5; beta
// is at most 2, with means of single digits: 5e-5.
//
// Differences by design are not compared: logits/* (LLaMA-Factory's are over prompt, padding and
// vocabulary). Tokens are counted without padding (include_num_input_tokens_seen: non_padding). kl
// is compared by a rule: LLaMA-Factory's is the sum over the window's micro-batches, ours is the
// mean over as many groups.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;

constexpr int kSteps = 8;

class StagesTest : public Workplace {
 protected:
  // Returns the keys of a case, with its files' paths; the run writes to `out`.
  json Keys(const std::string& name, const std::string& out) const {
    json keys = spec_.at("base");
    keys.update(spec_.at("cases").at(name));
    for (const char* key : {"model_name_or_path", "adapter_name_or_path", "ref_model"}) {
      if (keys.contains(key)) keys[key] = Runfile(kFolder + keys.at(key).get<std::string>());
    }
    keys["dataset_dir"] = Runfile(kFolder + std::string("data"));
    keys["output_dir"] = out;
    if (OnPretendDevice()) keys.erase("use_cpu");
    return keys;
  }

  // Trains the case and compares its log, step by step and evaluation by evaluation.
  void Compare(const std::string& name, int steps, const json& more = json::object(),
               std::vector<std::string> options = {}) const {
    json keys = Keys(name, "out");
    keys.update(more);
    keys["max_steps"] = steps;
    Write("case.yaml", keys.dump());  // JSON is YAML
    options.insert(options.end(), {"train", "case.yaml"});
    ASSERT_THAT(Run(options), Succeeds());
    const json golden = ReadJson(Runfile(kFolder + ("golden/" + name + ".json")));
    const int accumulation = keys.at("gradient_accumulation_steps");
    int step = 0;
    std::vector<json> evaluations;
    for (const json& line : ReadJsonLines(Path("out/trainer_log.jsonl"))) {
      if (line.contains("loss")) {
        ASSERT_LT(step, golden.at("steps").size());
        // bitsandbytes on a CPU does not always choose the nearest code
        // (tests/trainer/moment_test.cc): a norm differs by 4.2e-5. If the embeddings' states have
        // 8 bits too, a loss differs by 8e-5 at step 3.
        CompareNumbers(line, golden.at("steps")[step], accumulation,
                       "step " + std::to_string(step + 1), name == "sft_8bit" ? 6e-5 : 2e-5);
        ++step;
      } else if (line.contains("eval_loss")) {
        evaluations.push_back(line);
      }
    }
    EXPECT_EQ(step, steps);
    if (!golden.contains("evaluations")) return;
    const int all = static_cast<int>(golden.at("evaluations").size());
    ASSERT_EQ(evaluations.size(), steps < kSteps ? 2 : all);
    // The last one is after the training, which golden values have for all steps only.
    for (int i = 0; i < (steps < kSteps ? 1 : all); ++i)
      CompareNumbers(evaluations[i], golden.at("evaluations")[i], accumulation,
                     "evaluation " + std::to_string(i + 1));
    if (steps == kSteps)
      CompareNumbers(ReadJson(Path("out/eval_results.json")), golden.at("evaluations")[all - 1],
                     accumulation, "the evaluation after the training");
  }

  static constexpr char kFolder[] = "tests/golden/stages/";
  const json spec_ = ReadJson(Runfile(kFolder + std::string("cases.json")));

 private:
  static void CompareNumbers(const json& ours, const json& theirs, int accumulation,
                             const std::string& where, double bound = 2e-5) {
    for (const auto& [key, value] : theirs.items()) {
      if (key.find("logits/") != std::string::npos || key == "epoch") continue;
      if (key == "num_input_tokens_seen") {  // as LLaMA-Factory's callback calls it in this file
        EXPECT_EQ(ours.at("total_tokens"), value) << where;
        continue;
      }
      ASSERT_TRUE(ours.contains(key)) << where << ": no " << key << " in " << ours;
      const double want = key == "kl" ? value.get<double>() / accumulation : value.get<double>();
      const bool absolute = key.find("rewards/") != std::string::npos;
      const double tolerance = absolute ? 5e-5 : bound * std::max(std::fabs(want), 1.0);
      EXPECT_NEAR(ours.at(key).get<double>(), want, tolerance) << where << ", " << key;
    }
  }
};

// The cases of tests/golden/stages/cases.json.
// clang-format off
constexpr const char* kCases[] = {
    "pt", "pt_packed", "pt_unpacked", "sft", "sft_mask_history", "sft_dft", "sft_eaft", "sft_asft",
    "sft_asft_lora", "sft_asft_neat", "sft_label_smoothing", "sft_freeze", "sft_lora", "sft_oft",
    "sft_pissa", "sft_dora", "sft_loraplus", "sft_8bit", "sft_eval", "sft_eval_delay",
    "sft_eval_delay_epoch", "sft_grouped", "sft_grouped_epochs", "rm", "rm_eval", "kto",
    "kto_weights", "kto_lora",
    "sigmoid", "sigmoid_ref", "sigmoid_lora", "sigmoid_freeze", "sigmoid_eval", "cdpo", "ftx",
    "bco", "ld_alpha", "orpo", "simpo", "hinge", "ipo", "nca_pair", "robust", "moe", "moe_aux",
    "moe_lora", "capped", "capped_sigmoid", "rope_linear", "rope_dynamic", "rope_yarn",
    "rope_llama3", "packing", "packing_prompt", "neat_packing", "neat_packing_eval", "grown",
    "grown_tokens", "grown_split", "grown_pt", "grown_freeze", "grown_lora", "grown_rm",
    "grown_sigmoid_lora"
};
// clang-format on

TEST_F(StagesTest, AreAllGoldenCases) {
  std::set<std::string> golden;
  for (const auto& [name, keys] : spec_.at("cases").items()) golden.insert(name);
  EXPECT_EQ(std::set<std::string>(std::begin(kCases), std::end(kCases)), golden);
}

class EachStageTest : public StagesTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(EachStageTest, TrainsAsLlamaFactory) { Compare(GetParam(), kSteps); }

INSTANTIATE_TEST_SUITE_P(Golden, EachStageTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param; });

// Four steps, and an evaluation after the last if the case has one. With dp 2 each rank takes half
// a batch, so that a step has the same examples.
TEST_F(StagesTest, TrainAsLlamaFactoryOnTwoRanks) {
  for (const char* name : {"pt", "sft_eval", "sft_asft", "sft_dora", "sft_oft", "rm_eval",
                           "kto_weights", "sigmoid_eval", "bco", "orpo", "grown"}) {
    SCOPED_TRACE(name);
    {
      SCOPED_TRACE("sp 2");
      Compare(name, 4, {{"sequence_parallel_size", 2}}, {"-n", "2"});
    }
    SCOPED_TRACE("dp 2");
    Compare(name, 4, {{"per_device_train_batch_size", 1}}, {"-n", "2"});
  }
}

// The common prefix of a pair's documents goes through the model once, and the numbers are the
// same.
TEST_F(StagesTest, TrainAsLlamaFactoryWithSharedPrefixes) {
  for (const char* name : {"rm_eval", "sigmoid_eval", "bco", "orpo"}) {
    SCOPED_TRACE(name);
    Compare(name, 4, {{"share_prefixes", true}});
    SCOPED_TRACE("sp 2");
    Compare(name, 4, {{"share_prefixes", true}, {"sequence_parallel_size", 2}}, {"-n", "2"});
  }
}

}  // namespace
}  // namespace moonring::testing
