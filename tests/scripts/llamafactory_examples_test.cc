// Every training configuration of LLaMA-Factory's examples/: those for text are accepted and train
// a step; those that need a feature that Moonring lacks are rejected, with the key's name. The
// lists must cover every file.

#include <map>
#include <set>
#include <string>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Maps a file that is rejected to a part of the error message.
const std::map<std::string, std::string> kRefused = {
    {"extras/fp8/llama3_fp8_deepspeed_sft.yaml", "fp8: true"},
    {"extras/fp8/llama3_fp8_fsdp_sft.yaml", "fp8: true"},
    {"extras/llama_pro/llama3_freeze_sft.yaml", "use_llama_pro: true"},
    {"extras/mod/llama3_full_sft.yaml", "mixture_of_depths: convert"},
    {"ktransformers/train_lora/deepseek_v2_lora_sft_kt.yaml", "use_kt: true"},
    {"ktransformers/train_lora/deepseek_v3_lora_sft_kt.yaml", "use_kt: true"},
    {"ktransformers/train_lora/qwen3_5moe_lora_sft_kt.yaml", "use_kt: true"},
    {"ktransformers/train_lora/qwen3moe_lora_sft_kt.yaml", "use_kt: true"},
    // Megatron's keys, which LLaMA-Factory itself accepts only with USE_MCA=1.
    {"megatron/qwen2_vl_full.yaml", "unknown key"},
    {"megatron/qwen3_moe_full.yaml", "unknown key"},
};

class LlamaFactoryExamplesTest : public Workplace {
 protected:
  LlamaFactoryExamplesTest() {
    WriteModel("model");
    Write("data/rows.json",
          R"([{"instruction": "Q", "output": "good"}, {"instruction": "R", "output": "better"}])");
    Write("data/pairs.json", R"([{"instruction": "Q one", "chosen": "yes", "rejected": "no"}, )"
                             R"({"instruction": "Q two", "chosen": "a", "rejected": "b"}])");
    Write("data/judged.json",
          R"([{"instruction": "Q", "output": "good", "tag": true}, {"instruction": "R", )"
          R"("output": "bad", "tag": false}])");
    Write("data/texts.json", R"([{"text": "one text"}, {"text": "another text"}])");
    const json info = {
        {"sft", {{"file_name", "rows.json"}}},
        {"dpo",
         {{"file_name", "pairs.json"},
          {"ranking", true},
          {"columns",
           {{"prompt", "instruction"}, {"chosen", "chosen"}, {"rejected", "rejected"}}}}},
        {"kto",
         {{"file_name", "judged.json"},
          {"columns", {{"prompt", "instruction"}, {"response", "output"}, {"kto_tag", "tag"}}}}},
        {"pt", {{"file_name", "texts.json"}, {"columns", {{"prompt", "text"}}}}}};
    Write("data/dataset_info.json", info.dump());
    Write("examples/deepspeed/ds_z0_config.json", R"({"zero_optimization": {"stage": 0}})");
    Write("examples/deepspeed/ds_z3_config.json",
          R"({"gradient_clipping": "auto", "zero_optimization": {"stage": 3}})");
  }

  // Trains with the example's configuration and template but this test's model and data. The
  // configuration is written to a file, because some keys are allowed only in files.
  CommandResult Train(json keys, const std::string& out = "out") const {
    const std::string stage = keys["stage"];
    keys.update({{"model_name_or_path", "model"},
                 {"dataset", stage == "rm" ? "dpo" : stage},
                 {"dataset_dir", "data"},
                 {"output_dir", out},
                 {"overwrite_output_dir", true},
                 {"max_steps", 1},
                 {"save_strategy", "no"}});
    for (const char* gone : {"eval_dataset", "val_size", "eval_strategy", "eval_steps"})
      keys.erase(gone);
    if (keys.value("do_predict", false)) keys["eval_dataset"] = stage;
    if (stage == "pt") keys["cutoff_len"] = 4;
    Write("example.yaml", keys.dump());
    return Run({"train", "example.yaml"});
  }
};

TEST_F(LlamaFactoryExamplesTest, AreTrainedOrRefusedByName) {
  const json examples =
      json::parse(ReadText(Runfile("tests/golden/llamafactory_examples/examples.json")));
  int trained = 0;
  std::set<std::string> refused;
  for (const auto& [name, keys] : examples.items()) {
    SCOPED_TRACE(name);
    // First trains the adapter that the example continues, as its README says.
    if (keys.contains("adapter_name_or_path") && kRefused.count(name) == 0) {
      ASSERT_THAT(Train({{"stage", keys["stage"]},
                         {"finetuning_type", "lora"},
                         {"template", keys["template"]}},
                        keys["adapter_name_or_path"]),
                  Succeeds());
    }
    const CommandResult result = Train(keys);
    const auto found = kRefused.find(name);
    if (found == kRefused.end()) {
      EXPECT_THAT(result, Succeeds());
      ++trained;
      continue;
    }
    EXPECT_THAT(result, FailsWith(2, HasSubstr(found->second)));
    refused.insert(name);
  }
  EXPECT_EQ(refused.size(), kRefused.size());
  EXPECT_EQ(trained, 40);
}

}  // namespace
}  // namespace moonring::testing
