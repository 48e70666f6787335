// What happens between a run's steps: the reference's log-probs are cached, evaluations run, the
// best checkpoint is chosen, and training stops early or at non-finite numbers.

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RunControlTest : public Workplace {
 protected:
  // Returns the command for the small model and data of tests/golden/stages.
  std::vector<std::string> Words(const std::string& stage, const std::string& dataset,
                                 const std::string& out) const {
    const std::string home = Runfile("tests/golden/stages");
    return {"train",
            "model_name_or_path=" + home + "/model",
            "dataset_dir=" + home + "/data",
            "stage=" + stage,
            "dataset=" + dataset,
            "output_dir=" + out,
            "finetuning_type=full",
            "template=chatml",
            "cutoff_len=160",
            "per_device_train_batch_size=2",
            "gradient_accumulation_steps=2",
            "learning_rate=1e-3",
            "lr_scheduler_type=constant",
            "logging_steps=1",
            "max_steps=4",
            "save_strategy=no",
            "overwrite_output_dir=true"};
  }

  CommandResult Train(const std::string& stage, const std::string& dataset, const std::string& out,
                      std::vector<std::string> more, std::vector<std::string> options = {}) const {
    std::vector<std::string> words = std::move(options);
    for (std::string& word : Words(stage, dataset, out)) words.push_back(std::move(word));
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  }

  std::vector<double> Numbers(const std::string& out, const std::string& key) const {
    std::vector<double> found;
    for (const json& line : ReadJsonLines(Path(out + "/trainer_log.jsonl"))) {
      if (line.contains(key)) found.push_back(line.at(key));
    }
    return found;
  }

  // Returns a number of the evaluation after the training.
  double Final(const std::string& out, const std::string& key) const {
    return ReadJson(Path(out + "/eval_results.json")).at(key);
  }

  bool Exists(const std::string& name) const { return std::filesystem::exists(Path(name)); }
};

// Cached log-probs are bit-identical to those of a live reference if both are computed with one
// attention plan, also when the second epoch has another order.
TEST_F(RunControlTest, CachedReferenceGivesTheNumbersOfALiveOne) {
  for (const auto& [stage, dataset] : {std::pair{"dpo", "pairs"}, {"kto", "judged"}}) {
    for (const std::string sp : {"1", "2"}) {
      const std::string live = std::string(stage) + "_live" + sp,
                        cached = std::string(stage) + "_cached" + sp;
      ASSERT_THAT(Train(stage, dataset, live, {"sequence_parallel_size=" + sp}), Succeeds());
      ASSERT_THAT(Train(stage, dataset, cached,
                        {"sequence_parallel_size=" + sp, "precompute_ref_log_probs=true"}),
                  Succeeds());
      for (const char* key : {"loss", "grad_norm", "rewards/chosen", "rewards/rejected"})
        EXPECT_EQ(Numbers(cached, key), Numbers(live, key)) << stage << " sp " << sp << " " << key;
      EXPECT_EQ(Numbers(cached, "loss").size(), 4);
    }
  }
}

TEST_F(RunControlTest, CacheIsReadAgainAndRefusedWhereItIsStale) {
  const std::vector<std::string> cache = {"precompute_ref_log_probs=true", "max_steps=1",
                                          "val_size=4", "eval_strategy=steps", "eval_steps=1"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words = cache;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const CommandResult first = Train("dpo", "pairs", "out", cache);
  ASSERT_THAT(first, Succeeds());
  EXPECT_THAT(first.err, AllOf(HasSubstr("reference log-probs: computing those of 36 examples"),
                               HasSubstr("computing those of 4 examples")));
  const std::vector<double> evaluated = Numbers("out", "eval_loss");
  const CommandResult again = Train("dpo", "pairs", "out", cache);
  ASSERT_THAT(again, Succeeds());
  EXPECT_THAT(again.err,
              AllOf(HasSubstr("reference log-probs: read from out/reference_log_probs.json"),
                    Not(HasSubstr("computing"))));
  EXPECT_EQ(Numbers("out", "eval_loss"), evaluated);
  EXPECT_THAT(Train("dpo", "pairs", "out", with({"pref_beta=0.2"})),
              Succeeds());  // acts after the log-probs
  const auto refused = [](const std::string& why) {
    return FailsWith(
        2,
        AllOf(HasSubstr(
                  "out/reference_log_probs.json: these reference log-probs are of another run: "),
              HasSubstr(why)));
  };
  EXPECT_THAT(Train("dpo", "pairs", "out", with({"cutoff_len=150"})),
              refused("cutoff_len was 160, is 150"));
  EXPECT_THAT(Train("dpo", "pairs", "out", with({"template=smollm2"})),
              refused("template was chatml, is smollm2"));
  EXPECT_THAT(Train("dpo", "pairs", "out", with({"max_samples=20"})), refused("data was "));
  EXPECT_THAT(Train("dpo", "pairs", "out", with({"ld_alpha=0.5"})),
              refused("ld_alpha was none, is 0.5"));
  EXPECT_THAT(Train("dpo", "pairs", "out", with({"pref_loss=ipo"})),
              refused("pref_loss was sigmoid, is ipo"));
  EXPECT_THAT(Train("dpo", "pairs", "out", with({"bf16=true"})),
              refused("precision was fp32, is bf16"));
  ASSERT_THAT(Train("dpo", "pairs", "other", {"max_steps=1"}), Succeeds());
  EXPECT_THAT(Train("dpo", "pairs", "out", with({"ref_model=other"})), refused("reference was "));
  EXPECT_THAT(Train("dpo", "pairs", "out", with({"ref_model=other", "overwrite_cache=true"})).err,
              HasSubstr("computing those of 36 examples"));
  Write("out/reference_log_probs.json", "{\"key\": ");
  EXPECT_THAT(Train("dpo", "pairs", "out", cache),
              FailsWith(2, HasSubstr("not a file of reference log-probs")));
}

// The learning rate is far too large, so the loss rises: the first checkpoint is the best, and is
// loaded at the end.
TEST_F(RunControlTest, EndsWithTheBestCheckpoint) {
  const CommandResult result = Train(
      "sft", "talks", "out",
      {"val_size=6", "eval_strategy=steps", "eval_steps=1", "save_strategy=steps", "save_steps=1",
       "save_total_limit=1", "load_best_model_at_end=true", "learning_rate=3", "plot_loss=true"});
  ASSERT_THAT(result, Succeeds());
  const std::vector<double> losses = Numbers("out", "eval_loss");
  ASSERT_EQ(losses.size(), 5);  // of each step, and of the best model at the end
  EXPECT_LT(losses[0], losses[1]);
  EXPECT_EQ(losses[4], Final("out", "eval_loss"));
  EXPECT_NEAR(Final("out", "eval_loss"), losses[0], 1e-6 * losses[0]);
  EXPECT_TRUE(Exists("out/checkpoint-1") && Exists("out/checkpoint-4"));
  EXPECT_FALSE(Exists("out/checkpoint-2") || Exists("out/checkpoint-3"));
  const StoredTensors best = ReadSafetensors(Path("out/checkpoint-1/model.safetensors")),
                      left = ReadSafetensors(Path("out/model.safetensors"));
  for (const auto& [name, tensor] : best) EXPECT_EQ(left.at(name).values, tensor.values) << name;
  const json state = ReadJson(Path("out/trainer_state.json"));
  EXPECT_EQ(state.at("best_global_step"), 1);
  EXPECT_EQ(state.at("best_model_checkpoint"), "out/checkpoint-1");
  EXPECT_DOUBLE_EQ(state.at("best_metric"), losses[0]);
  EXPECT_TRUE(Exists("out/training_eval_loss.png"));
}

TEST_F(RunControlTest, TheBestAdapterAndValueHeadComeBack) {
  for (const std::string kind : {"lora", "full"}) {
    ASSERT_THAT(
        Train("rm", "pairs", kind,
              {"finetuning_type=" + kind, "val_size=6", "eval_strategy=steps", "eval_steps=1",
               "save_strategy=steps", "save_steps=1", "load_best_model_at_end=true",
               "metric_for_best_model=loss", "learning_rate=1", "max_steps=3"}),
        Succeeds());
    const std::vector<double> losses = Numbers(kind, "eval_loss");
    ASSERT_EQ(losses.size(), 4);  // of each step, and of the best model at the end
    EXPECT_NEAR(Final(kind, "eval_loss"), *std::min_element(losses.begin(), losses.end()), 1e-6);
    EXPECT_TRUE(Exists(kind + "/value_head.safetensors") &&
                Exists(kind + "/checkpoint-1/value_head.safetensors"));
    EXPECT_EQ(Exists(kind + "/adapter_model.safetensors"), kind == "lora");
  }
}

TEST_F(RunControlTest, StopsWhereEvaluationDoesNotImprove) {
  ASSERT_THAT(Train("sft", "talks", "out",
                    {"val_size=6", "eval_strategy=steps", "eval_steps=1", "early_stopping_steps=2",
                     "learning_rate=3", "max_steps=9"}),
              Succeeds());
  EXPECT_EQ(Numbers("out", "loss").size(), 3);
}

TEST_F(RunControlTest, EvaluatesAndSavesAtTheEndOfEpochs) {
  ASSERT_THAT(
      Train("sft", "talks", "out",
            {"max_samples=10", "eval_dataset=talks", "eval_strategy=epoch", "save_strategy=epoch",
             "max_steps=-1", "num_train_epochs=2", "eval_on_start=true"}),
      Succeeds());
  EXPECT_EQ(Numbers("out", "loss").size(), 6);       // ceil(10 / 4) steps an epoch
  EXPECT_EQ(Numbers("out", "eval_loss").size(), 4);  // at the start, after each epoch, at the end
  EXPECT_TRUE(Exists("out/checkpoint-3") && Exists("out/checkpoint-6"));
}

// As in Transformers, a run that ends within an epoch evaluates and logs as at an epoch's end. A
// line's loss is the mean since the previous line.
TEST_F(RunControlTest, LogsByStepsByEpochsOrNever) {
  const std::vector<std::string> common = {"max_samples=10", "max_steps=5", "eval_dataset=talks",
                                           "eval_strategy=epoch"};
  const auto train = [&](const std::string& out, std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    ASSERT_THAT(Train("sft", "talks", out, more), Succeeds());
  };
  const auto steps_of = [&](const std::string& out, const std::string& number) {
    std::vector<int> steps;
    for (const json& line : ReadJsonLines(Path(out + "/trainer_log.jsonl"))) {
      if (line.contains(number)) steps.push_back(line.at("current_steps"));
    }
    return steps;
  };
  train("steps", {});
  const auto each = Numbers("steps", "loss");
  ASSERT_EQ(each.size(), 5);
  EXPECT_EQ(steps_of("steps", "eval_loss"), (std::vector<int>{3, 5, 5}));  // the last: at the end
  train("epochs", {"logging_strategy=epoch"});
  EXPECT_EQ(steps_of("epochs", "loss"), (std::vector<int>{3, 5}));
  const auto means = Numbers("epochs", "loss");
  EXPECT_NEAR(means[0], (each[0] + each[1] + each[2]) / 3, 1e-6);
  EXPECT_NEAR(means[1], (each[3] + each[4]) / 2, 1e-6);
  train("never", {"logging_strategy=no"});
  EXPECT_TRUE(steps_of("never", "loss").empty());
  EXPECT_EQ(steps_of("never", "eval_loss"), (std::vector<int>{3, 5, 5}));
  train("first", {"logging_strategy=no", "logging_first_step=true"});
  EXPECT_EQ(steps_of("first", "loss"), (std::vector<int>{1}));
}

// No evaluation happens before eval_delay, in steps or epochs; the best one is chosen among the
// others.
TEST_F(RunControlTest, EvaluationsWaitForEvalDelay) {
  // The steps of the evaluations, without the one after the training.
  const auto evaluated = [&](const std::string& out) {
    std::vector<int> steps;
    for (const json& line : ReadJsonLines(Path(out + "/trainer_log.jsonl"))) {
      if (line.contains("eval_loss")) steps.push_back(line.at("current_steps"));
    }
    EXPECT_FALSE(steps.empty());
    if (!steps.empty()) steps.pop_back();
    return steps;
  };
  const std::vector<std::string> each = {"val_size=6", "eval_strategy=steps", "eval_steps=1"};
  const auto train = [&](const std::string& out, std::vector<std::string> more) {
    more.insert(more.begin(), each.begin(), each.end());
    ASSERT_THAT(Train("sft", "talks", out, more), Succeeds());
  };
  train("all", {});
  EXPECT_EQ(evaluated("all"), (std::vector<int>{1, 2, 3, 4}));
  train("steps", {"eval_delay=3", "eval_on_start=true"});
  EXPECT_EQ(evaluated("steps"), (std::vector<int>{0, 3, 4}));
  train("part",
        {"eval_delay=2.5", "save_strategy=steps", "save_steps=1", "load_best_model_at_end=true",
         "metric_for_best_model=loss", "greater_is_better=true"});
  EXPECT_EQ(evaluated("part"), (std::vector<int>{3, 4}));
  EXPECT_TRUE(ReadText(Path("part/model.safetensors")) ==
              ReadText(Path("part/checkpoint-3/model.safetensors")));
  train("never",
        {"eval_delay=99", "save_strategy=steps", "save_steps=1", "load_best_model_at_end=true"});
  EXPECT_TRUE(evaluated("never").empty());
  EXPECT_TRUE(ReadText(Path("never/model.safetensors")) ==
              ReadText(Path("never/checkpoint-4/model.safetensors")));
  train("epochs", {"max_samples=14", "eval_strategy=epoch", "eval_delay=1.5", "max_steps=-1",
                   "num_train_epochs=3"});
  EXPECT_EQ(evaluated("epochs"), (std::vector<int>{4, 6}));  // of 8 examples: two steps an epoch
  EXPECT_THAT(Train("sft", "talks", "bad", {"eval_delay=-1"}),
              FailsWith(2, HasSubstr("eval_delay: expected 0 or more, got -1")));
}

// The files next to the model and in a checkpoint have the names of Transformers and LLaMA-Factory,
// because scripts look for them.
TEST_F(RunControlTest, LeavesItsArgumentsAStateACheckpointAndACard) {
  const std::vector<std::string> more = {"val_size=6",     "eval_strategy=steps",
                                         "eval_steps=0.5", "save_strategy=steps",
                                         "save_steps=3",   "weight_decay=0.1"};
  ASSERT_THAT(Train("sft", "talks", "out", more, {"-n", "2"}), Succeeds());
  ASSERT_THAT(Run({"-n", "2", "train", "out/training_args.yaml", "output_dir=again"}), Succeeds());
  EXPECT_EQ(ReadText(Path("again/model.safetensors")), ReadText(Path("out/model.safetensors")));
  EXPECT_THAT(ReadText(Path("out/training_args.yaml")),
              AllOf(HasSubstr("# Again: moonring -n 2 train "), HasSubstr("\nweight_decay: 0.1\n"),
                    HasSubstr("\neval_steps: 0.5\n"), Not(HasSubstr("push_to_hub"))));

  const json state = ReadJson(Path("out/trainer_state.json")),
             earlier = ReadJson(Path("out/checkpoint-3/trainer_state.json"));
  EXPECT_EQ(state.at("eval_steps"), 2);
  EXPECT_EQ(state.at("save_steps"), 3);
  EXPECT_EQ(earlier.at("global_step"), 3);
  EXPECT_EQ(earlier.at("log_history").size(), 4);  // three steps and an evaluation
  const double tokens = state.at("num_input_tokens_seen"),
               flos = ReadJson(Path("out/train_results.json")).at("total_flos");
  const json config = ReadJson(Path("out/config.json"));
  const double hidden = config.at("hidden_size"),
               rows = config.at("head_dim").get<double>() *
                      (2 * config.at("num_attention_heads").get<double>() +
                       2 * config.at("num_key_value_heads").get<double>());
  const double layer = hidden * (rows + 3 * config.at("intermediate_size").get<double>() + 2);
  EXPECT_DOUBLE_EQ(flos, 6 * tokens *
                             (config.at("num_hidden_layers").get<double>() * layer +
                              hidden));  // the head is the embedding

  const std::string card = ReadText(Path("out/README.md"));
  const std::string home = Runfile("tests/golden/stages");
  EXPECT_THAT(card, ::testing::StartsWith(
                        "---\nlibrary_name: transformers\nlicense: other\nbase_model: \"" + home +
                        "/model\"\ntags:\n- moonring\n- full\n"));
  std::vector<std::string> headings;
  std::istringstream card_lines(card);
  for (std::string line; std::getline(card_lines, line);)
    if (line[0] == '#') headings.push_back(line);
  EXPECT_EQ(headings,
            (std::vector<std::string>{
                "# out", "## Model description", "## Intended uses & limitations",
                "## Training and evaluation data", "## Training procedure",
                "### Training hyperparameters", "### Training results", "### Framework versions"}));
  Write("front.yaml", card.substr(4, card.find("\n---\n", 4) - 3));
  const CommandResult front =
      Run({"-e", "local s = moonring.system; print(s.json_encode((s.yaml_decode(s.read(arg[1])))))",
           "front.yaml"});
  ASSERT_THAT(front, Succeeds());
  EXPECT_EQ(json::parse(front.out),
            json({{"library_name", "transformers"},
                  {"license", "other"},
                  {"base_model", home + "/model"},
                  {"tags", {"moonring", "full", "sft", "generated_from_trainer"}},
                  {"model-index", json::array({{{"name", "out"}, {"results", json::array()}}})}}));
  EXPECT_THAT(card, AllOf(HasSubstr("\n# out\n"), HasSubstr("\n- total_train_batch_size: 8\n"),
                          HasSubstr("\n- training_steps: 4\n"),
                          HasSubstr("| Training Loss | Epoch | Step | Validation Loss |")));
  const std::vector<double> losses = Numbers("out", "loss"),
                            evaluated = Numbers("out", "eval_loss");
  char row[80];
  std::snprintf(row, sizeof(row), "| %.4f", losses[1]);
  EXPECT_THAT(card, HasSubstr(std::string(row).substr(0, 7)));
  std::snprintf(row, sizeof(row), "\n- Loss: %.4f", Final("out", "eval_loss"));
  EXPECT_THAT(card, HasSubstr(std::string(row).substr(0, 13)));  // without the zeros at its end
  EXPECT_EQ(evaluated.size(), 3);  // at steps 2 and 4, and at the end
}

// The run stops before the update, on any number of ranks; the last checkpoint stays complete.
TEST_F(RunControlTest, StopsAtANonFiniteLoss) {
  for (const std::string sp : {"1", "2"}) {
    const std::string out = "nan" + sp;
    const CommandResult result =
        Train("sft", "talks", out,
              {"learning_rate=1e20", "optim=sgd", "max_grad_norm=0", "save_strategy=steps",
               "save_steps=1", "disable_shuffling=true", "sequence_parallel_size=" + sp});
    EXPECT_EQ(result.exit_code, 1) << result.Describe();
    EXPECT_THAT(result.err, AllOf(HasSubstr("step 2: the loss is "),
                                  HasSubstr("examples 4, 5, 6, 7 of the data set"),
                                  HasSubstr("stopped before the update")));
    EXPECT_TRUE(Exists(out + "/checkpoint-1/model.safetensors"));
    EXPECT_FALSE(Exists(out + "/checkpoint-2") || Exists(out + "/model.safetensors"));
  }
}

}  // namespace
}  // namespace moonring::testing
