// Trains models of three more families by commands: interrupted and resumed bit-identically, on two
// ranks, with full fine-tuning, adapters and preferences. One family has linear attention and
// experts, one has experts in two tensors per layer, one has a vision tower and a second embedding.
// tests/peers/families_by_host.py does this for all families and compares with Transformers.

#include <filesystem>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class FamilyRunsTest : public ResumedRuns, public ::testing::WithParamInterface<std::string> {
 protected:
  // Writes the golden model with a tokenizer of more tokens than the model has embedding rows.
  void WriteFamily() const {
    const std::string golden = Runfile("tests/golden/families/" + GetParam());
    for (const char* file : {"config.json", "model.safetensors"})
      Write("family/" + std::string(file), ReadText(golden + "/" + file));
    Write("family/tokenizer.json", ReadText("tests/golden/tokenizer/tiny/smollm2.tokenizer.json"));
    Write("family/tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  }

  void ExpectSameOverTwoRanks(const std::string& name, const Words& words) const {
    SCOPED_TRACE(name);
    ASSERT_THAT(Train(name + "_sp2", words + Words{"sequence_parallel_size=2"}), Succeeds());
    const json one = Steps(name), two = Steps(name + "_sp2");
    ASSERT_EQ(one.size(), 3u);
    ASSERT_EQ(two.size(), one.size());
    // AdamW's step is as large for a small gradient as for a large one, so it amplifies the
    // rounding of small ones.
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_NEAR(two[i]["loss"].get<double>() / one[i]["loss"].get<double>(), 1.0, 1e-5) << i;
      EXPECT_NEAR(two[i]["grad_norm"].get<double>() / one[i]["grad_norm"].get<double>(), 1.0, 1e-4)
          << i;
    }
  }
};

TEST_P(FamilyRunsTest, ResumesBitForBit) {
  WriteFamily();
  const Words short_run = {"max_steps=3", "save_steps=1"};
  const Words full =
      Words{"model_name_or_path=family", "resize_vocab=true", "optim=sgd"} + short_run;
  ExpectResumes("full", full, {1});
  ExpectSameOverTwoRanks("full", full);
  // The saved model can be trained like any other model.
  const Words again = Words{"model_name_or_path=full"} + short_run;
  const Words lora = again + Words{"finetuning_type=lora", "lora_target=all"};
  ExpectResumes("lora", lora, {2});
  ExpectSameOverTwoRanks("lora", lora);
  ExpectResumes("dpo", again + Words{"stage=dpo", "dataset=pairs"}, {2});
}

INSTANTIATE_TEST_SUITE_P(Models, FamilyRunsTest,
                         ::testing::Values("qwen3_next", "gpt_oss", "gemma4_vision"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace moonring::testing
