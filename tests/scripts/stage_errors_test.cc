// Data, adapters, references and options that do not fit a stage are reported in one line, before
// the first step.

#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class StageErrorsTest : public Workplace {
 protected:
  StageErrorsTest() {
    WriteModel("model");
    Write("data/pairs.json",
          R"([{"instruction": "Q one", "chosen": "yes and more", "rejected": "no"}, )"
          R"({"instruction": "Q two", "chosen": "a", "rejected": "b"}])");
    Write("data/judged.json",
          R"([{"instruction": "Q", "output": "good", "tag": true}, {"instruction": "R", )"
          R"("output": "bad", "tag": false}])");
    Write("data/rows.json",
          R"([{"instruction": "Q", "output": "good"}, {"instruction": "R", "output": "better"}])");
    Write("data/texts.json", R"([{"text": "one text"}, {"text": "another text"}])");
    Describe();
  }

  void Describe(json more = json::object()) const {
    json info = {
        {"rows", {{"file_name", "rows.json"}}},
        {"pairs",
         {{"file_name", "pairs.json"},
          {"ranking", true},
          {"columns",
           {{"prompt", "instruction"}, {"chosen", "chosen"}, {"rejected", "rejected"}}}}},
        {"judged",
         {{"file_name", "judged.json"},
          {"columns", {{"prompt", "instruction"}, {"response", "output"}, {"kto_tag", "tag"}}}}},
        {"texts", {{"file_name", "texts.json"}, {"columns", {{"prompt", "text"}}}}}};
    info.update(more);
    Write("data/dataset_info.json", info.dump());
  }

  CommandResult Train(const std::string& stage, const std::string& dataset,
                      std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"train",
                                      "model_name_or_path=model",
                                      "stage=" + stage,
                                      "dataset=" + dataset,
                                      "template=chatml",
                                      "output_dir=out",
                                      "per_device_train_batch_size=2",
                                      "max_steps=1",
                                      "dataset_dir=data",
                                      "finetuning_type=full",
                                      "overwrite_output_dir=true",
                                      "save_strategy=no",
                                      "logging_steps=1"};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  }
};

TEST_F(StageErrorsTest, DataOfAnotherStage) {
  EXPECT_THAT(Train("dpo", "rows"),
              FailsWith(2, HasSubstr("data set 'rows': is no ranking data set")));
  EXPECT_THAT(Train("rm", "judged"),
              FailsWith(2, HasSubstr("data set 'judged': is no ranking data set")));
  EXPECT_THAT(Train("sft", "pairs"),
              FailsWith(2, HasSubstr("data set 'pairs': is a ranking data set")));
  EXPECT_THAT(Train("kto", "pairs"),
              FailsWith(2, HasSubstr("data set 'pairs': is a ranking data set")));
  EXPECT_THAT(Train("pt", "pairs"),
              FailsWith(2, HasSubstr("data set 'pairs': is a ranking data set")));
  EXPECT_THAT(Train("sft", "judged"),
              FailsWith(2, HasSubstr("data set 'judged': is a KTO data set")));
  EXPECT_THAT(Train("kto", "rows"), FailsWith(2, HasSubstr("data set 'rows': is no KTO data set")));
  for (const char* stage : {"dpo", "rm"}) EXPECT_THAT(Train(stage, "pairs"), Succeeds());
  EXPECT_THAT(Train("kto", "judged"), Succeeds());
  EXPECT_THAT(Train("pt", "texts", {"packing=false"}), Succeeds());
}

// Pairs with almost no label tokens are kept, as in LLaMA-Factory; a message has their number and
// the position of the first.
TEST_F(StageErrorsTest, AnswersWithFewLabelsAreCounted) {
  Write("data/pairs.json",
        R"([{"instruction": "Q", "chosen": "yes", "rejected": "no"}, {"instruction": "Q", )"
        R"("chosen": "same", "rejected": "same"}, {"instruction": "Q", "chosen": "", )"
        R"("rejected": "no"}])");
  const CommandResult result = Train("dpo", "pairs");
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err, AllOf(HasSubstr("equal"), HasSubstr("empty"), HasSubstr("(row 2)"),
                                HasSubstr("(row 3)")));
}

TEST_F(StageErrorsTest, Adapters) {
  EXPECT_THAT(Train("sft", "rows", {"finetuning_type=lora", "adapter_name_or_path=nowhere"}),
              FailsWith(2, "adapter_name_or_path: no folder 'nowhere'"));
  EXPECT_THAT(Train("sft", "rows", {"finetuning_type=lora", "adapter_name_or_path=model"}),
              FailsWith(2, "adapter_name_or_path: model has no adapter_config.json"));
  EXPECT_THAT(Train("sft", "rows", {"finetuning_type=lora", "lora_target=q_prj"}),
              FailsWith(2,
                        "lora_target: no linear module is called 'q_prj', there are q_proj, "
                        "k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj"));
  EXPECT_THAT(Train("sft", "rows", {"adapter_name_or_path=nowhere"}),
              FailsWith(2, "adapter_name_or_path is for finetuning_type lora and oft alone"));
  EXPECT_THAT(Train("sft", "rows", {"finetuning_type=lora", "lora_rank=0"}),
              FailsWith(2, "lora_rank: expected at least 1, got 0"));
  EXPECT_THAT(Train("sft", "rows", {"finetuning_type=lora", "lora_dropout=1.5"}),
              FailsWith(2, "lora_dropout: expected 0 to 1, got 1.5"));
  EXPECT_THAT(
      Train("sft", "rows", {"finetuning_type=freeze", "freeze_trainable_modules=atn"}),
      FailsWith(
          2, HasSubstr(
                 "freeze_trainable_modules: there is no module 'atn', there are input_layernorm")));
  EXPECT_THAT(Train("sft", "rows", {"finetuning_type=freeze", "freeze_trainable_layers=0"}),
              FailsWith(2, HasSubstr("freeze_trainable_layers: ")));
}

TEST_F(StageErrorsTest, Preferences) {
  EXPECT_THAT(Train("dpo", "pairs", {"pref_beta=0"}),
              FailsWith(2, "pref_beta: expected more than 0, got 0"));
  EXPECT_THAT(Train("kto", "judged", {"pref_beta=-0.1"}),
              FailsWith(2, "pref_beta: expected more than 0, got -0.1"));
  EXPECT_THAT(Train("dpo", "pairs", {"pref_loss=sigmod"}),
              FailsWith(2, HasSubstr("(did you mean 'sigmoid'?)")));
  EXPECT_THAT(Train("dpo", "pairs", {"pref_loss=orpo", "precompute_ref_log_probs=true"}),
              FailsWith(2,
                        "precompute_ref_log_probs: pref_loss orpo has no reference whose log-probs "
                        "could be kept"));
  EXPECT_THAT(Train("dpo", "pairs", {"pref_loss=simpo", "ref_model=model"}),
              FailsWith(2, "ref_model: pref_loss simpo has no reference"));
  EXPECT_THAT(Train("dpo", "pairs", {"pref_loss=ipo", "dpo_label_smoothing=0.1"}),
              FailsWith(2, HasSubstr("pref_loss ipo has no label smoothing")));
  EXPECT_THAT(Train("dpo", "pairs", {"dpo_label_smoothing=0.6"}),
              FailsWith(2, "dpo_label_smoothing: expected 0 to 0.5, got 0.6"));
  EXPECT_THAT(Train("dpo", "pairs", {"pref_loss=robust", "dpo_label_smoothing=0.5"}),
              FailsWith(2, HasSubstr("dpo_label_smoothing: robust divides by ")));
  EXPECT_THAT(
      Train("dpo", "pairs", {"ref_model=builtin:smollm2"}),
      FailsWith(2,
                HasSubstr("ref_model: builtin:smollm2 has a vocabulary of 49152 ids, the model ")));
  EXPECT_THAT(Train("dpo", "pairs", {"ref_model=nowhere"}),
              FailsWith(2, HasSubstr("no folder or file 'nowhere'")));
  EXPECT_THAT(
      Train("sft", "rows", {"precompute_ref_log_probs=true"}),
      FailsWith(2, HasSubstr("precompute_ref_log_probs: no reference is used in stage sft")));
  EXPECT_THAT(Train("dpo", "pairs", {"train_on_prompt=true"}),
              FailsWith(2, "train_on_prompt is for stage sft alone"));
  EXPECT_THAT(Train("sft", "rows", {"use_dft_loss=true", "label_smoothing_factor=0.1"}),
              FailsWith(2, "use_dft_loss and label_smoothing_factor exclude one another"));
  EXPECT_THAT(Train("sft", "rows", {"use_asft_loss=true", "use_dft_loss=true"}),
              FailsWith(2, "use_dft_loss and use_asft_loss exclude one another"));
  EXPECT_THAT(Train("pt", "texts", {"use_asft_loss=true"}),
              FailsWith(2, "use_asft_loss is for stage sft alone"));
  EXPECT_THAT(Train("sft", "rows", {"ref_model=model"}),
              FailsWith(2, HasSubstr("ref_model: in stage sft only use_asft_loss uses it")));
}

TEST_F(StageErrorsTest, Evaluation) {
  EXPECT_THAT(Train("sft", "rows", {"eval_strategy=steps"}),
              FailsWith(2, HasSubstr("nothing to evaluate on")));
  EXPECT_THAT(Train("sft", "rows", {"val_size=1", "eval_dataset=rows"}),
              FailsWith(2, "val_size and eval_dataset exclude one another"));
  EXPECT_THAT(
      Train("sft", "rows", {"val_size=1", "eval_strategy=steps", "load_best_model_at_end=true"}),
      FailsWith(2, "load_best_model_at_end: save_strategy no and eval_strategy steps must agree"));
  EXPECT_THAT(
      Train("sft", "rows",
            {"val_size=1", "eval_strategy=steps", "save_strategy=steps", "eval_steps=2",
             "save_steps=3", "load_best_model_at_end=true"}),
      FailsWith(2, "load_best_model_at_end: save_steps 3 must be a multiple of eval_steps 2"));
  EXPECT_THAT(Train("sft", "rows", {"early_stopping_steps=1"}),
              FailsWith(2, "early_stopping_steps: expected an eval_strategy beside it"));
  EXPECT_THAT(
      Train("sft", "rows", {"eval_steps=1.5"}),
      FailsWith(
          2, HasSubstr(
                 "eval_steps: expected a part of all steps below 1 or a whole number, got 1.5")));
  const CommandResult metric = Train(
      "sft", "rows",
      {"eval_dataset=rows", "eval_strategy=steps", "eval_steps=1", "metric_for_best_model=los"});
  EXPECT_EQ(metric.exit_code, 1);
  EXPECT_THAT(
      metric.err,
      HasSubstr("metric_for_best_model: no evaluation gives eval_los; there are eval_loss"));
}

}  // namespace
}  // namespace moonring::testing
