// Runs that resume after a change: another spelling of the configuration, another path of the
// folder, an earlier checkpoint, other ranks or batches. Changes that would alter the results are
// rejected, and what the run has decided (the best checkpoint, its end) is kept.

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ResumeChangesTest : public ResumedRuns {
 protected:
  static ::testing::Matcher<const CommandResult&> Refuses(const std::string& why) {
    return FailsWith(2, AllOf(HasSubstr(" is of another run: "), HasSubstr(why),
                              HasSubstr("ignore_data_skip: true resumes anyway")));
  }
  std::vector<int> StepNumbers(const std::string& out) const {
    std::vector<int> numbers;
    for (const json& line : Steps(out)) numbers.push_back(line.at("current_steps"));
    return numbers;
  }
  bool Has(const std::string& path) const { return fs::exists(Path(path)); }
  // The greater loss counts as better, so the first evaluation is the best and remains so.
  const Words first_is_best_ = {"val_size=6", "eval_strategy=steps", "eval_steps=1",
                                "metric_for_best_model=loss", "greater_is_better=true"};
};

// The file training_args.yaml that a run writes can resume it, for every kind of run.
TEST_F(ResumeChangesTest, TheRunsOwnConfigurationResumes) {
  struct Kind {
    std::string name;
    Words words, options;
  };
  const std::vector<Kind> kinds = {
      {"full", {}, {}},
      {"untold", {"template="}, {}},
      {"grown", {"template=llama3"}, {}},
      {"lora", {"finetuning_type=lora", "lora_target=q_proj,v_proj"}, {}},
      {"dpo", {"stage=dpo", "dataset=pairs", "pref_loss=ipo"}, {"-n", "2"}},
      {"schedule",
       {"lr_scheduler_type=cosine_with_min_lr", "lr_scheduler_kwargs={min_lr_rate: 0.1}"},
       {}}};
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    const std::string again = kind.name + "_again";
    ASSERT_THAT(Train(kind.name, kind.words + Words{"max_steps=3"}, kind.options), Succeeds());
    KeepUpTo(kind.name, 2, again);
    fs::copy(Path(kind.name + "/training_args.yaml"), Path(again + "/training_args.yaml"));
    ASSERT_THAT(Run(kind.options + Words{"train", again + "/training_args.yaml",
                                         "output_dir=" + again, "resume_from_checkpoint=true"}),
                Succeeds());
    ExpectSameRun(kind.name, again);
  }
}

// The template or the configuration added tokens to the vocabulary; the run also continues after a
// restart.
TEST_F(ResumeChangesTest, AGrownVocabularyResumes) {
  ExpectResumes("template", {"template=llama3", "max_steps=3"}, {2});
  ExpectResumes("lora", {"template=llama3", "finetuning_type=lora", "max_steps=3"}, {2});
  ExpectResumes("added", {"add_tokens=<one>,<two>", "max_steps=3"}, {2});
}

TEST_F(ResumeChangesTest, TheSamePathsAndSeedMayBeWrittenOtherwise) {
  fs::copy(Runfile("tests/golden/stages/model"), Path("model"), fs::copy_options::recursive);
  ASSERT_THAT(Train("out", {"model_name_or_path=model", "max_steps=1"}), Succeeds());
  EXPECT_THAT(Train("out", {"model_name_or_path=" + Path("./model"), "data_seed=42", "max_steps=2",
                            "resume_from_checkpoint=true"}),
              Succeeds());
  EXPECT_THAT(Train("out", {"model_name_or_path=model", "data_seed=7", "max_steps=3",
                            "resume_from_checkpoint=true"}),
              Refuses("data_seed was 42, is 7"));
}

// A checkpoint of an older version, whose recorded configuration lacks a key (or knew only the
// key's default), can be resumed.
TEST_F(ResumeChangesTest, AKeyThatACheckpointLacksHadItsDefault) {
  Write("between.lua", R"(
    local config = require "moonring.config"
    local keys = require "moonring.config.keys"
    local changes = require "moonring.run.checkpoint.resume_changes"
    local system = require "moonring.native.system"
    local old = changes.remembered(config.load(nil, {}))
    local lacks = {} -- all that have a default
    for row in keys.rows() do
      if row[3] ~= system.null and not row.nullable then lacks[row[1]] = true end
    end
    for name in pairs(lacks) do old[name] = nil end
    local function say(saved, ...)
      local may, may_not = changes.between(saved, config.load(nil, { ... }))
      print(table.concat(may, "; ") .. " | " .. table.concat(may_not, "; "))
    end
    say(old)
    say(old, "group_by_length=true", "learning_rate=1e-4", "cutoff_len=512", "warmup_steps=0")
    -- And the other way: a key that the present version's record lacks.
    old.group_by_length, old.cutoff_len, old.of_another_version = false, 99, 1
    say(old)
    -- Null is not the default of a key that may be null.
    say(changes.remembered(config.load(nil, { "enable_thinking=null" })))
  )");
  const CommandResult result = Run({"between.lua"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_EQ(result.out,
            " | \n"
            "learning_rate was 5e-05, is 0.0001 | cutoff_len was 2048, is 512; group_by_length was "
            "false, is true\n"
            " | cutoff_len was 99, is 2048; of_another_version was 1, is nothing\n"
            " | enable_thinking was nothing, is true\n");
}

// When the run's folder has moved, the best checkpoint is found, and kept, at the new path.
TEST_F(ResumeChangesTest, TheBestIsFoundWhereTheFolderIsNow) {
  const Words words = first_is_best_ + Words{"load_best_model_at_end=true", "save_total_limit=2"};
  ASSERT_THAT(Train("out", words + Words{"max_steps=3"}), Succeeds());
  const std::string best = ReadText(Path("out/checkpoint-1/model.safetensors"));
  EXPECT_TRUE(ReadText(Path("out/model.safetensors")) == best);
  fs::rename(Path("out"), Path("moved"));
  fs::remove(Path("moved/model.safetensors"));
  ASSERT_THAT(Train("moved", words + Words{"max_steps=5", "resume_from_checkpoint=true"}),
              Succeeds());
  EXPECT_TRUE(Has("moved/checkpoint-1/manifest.json") && Has("moved/checkpoint-5/manifest.json"));
  EXPECT_TRUE(ReadText(Path("moved/model.safetensors")) == best);
  // When a run resumes into another folder, the best checkpoint stays in the old one.
  ASSERT_THAT(
      Train("other", words + Words{"max_steps=6", "resume_from_checkpoint=moved/checkpoint-5"}),
      Succeeds());
  EXPECT_TRUE(ReadText(Path("other/model.safetensors")) == best);
  EXPECT_EQ(StepNumbers("other"),
            (std::vector<int>{1, 2, 3, 4, 5, 6}));  // with what was logged before
}

// If the best checkpoint is missing, the last model is written instead.
TEST_F(ResumeChangesTest, ABestThatIsGoneCostsNoModel) {
  const Words words = first_is_best_ + Words{"load_best_model_at_end=true"};
  ASSERT_THAT(Train("out", words + Words{"max_steps=2"}), Succeeds());
  fs::remove_all(Path("out/checkpoint-1"));
  fs::remove(Path("out/model.safetensors"));
  const CommandResult gone =
      Train("out", words + Words{"max_steps=3", "resume_from_checkpoint=true"});
  ASSERT_THAT(gone, Succeeds());
  EXPECT_THAT(gone.err,
              HasSubstr("the best model is that of step 1, and out/checkpoint-1 cannot be loaded: "
                        "it was not saved, or is not there any more; the one after the last"));
  EXPECT_TRUE(ReadText(Path("out/model.safetensors")) ==
              ReadText(Path("out/checkpoint-3/model.safetensors")));
  // The same if the disk is too full for a checkpoint but not for the model.
  CommandOptions options = Options(CommandOf("full", words + Words{"max_steps=2"}));
  options.largest_file = 600'000;
  const CommandResult full = RunMoonring(options);
  ASSERT_THAT(full, Succeeds());
  EXPECT_THAT(full.err, HasSubstr("full/checkpoint-1 cannot be loaded"));
  EXPECT_TRUE(Has("full/model.safetensors"));
}

// An evaluation that is not finite is never the best, and a run that had one can be resumed.
TEST_F(ResumeChangesTest, ANonFiniteEvaluationIsNeverTheBest) {
  StoredTensors weights = TinyWeights();
  for (float& value : weights.at("model.norm.weight").values)
    value = 3e38f;  // so that logits are infinite
  WriteModel("model", weights);
  const Words words = {"model_name_or_path=model",   "on_nonfinite=skip", "val_size=6",
                       "eval_strategy=steps",        "eval_steps=1",      "early_stopping_steps=9",
                       "load_best_model_at_end=true"};
  ASSERT_THAT(Train("out", words + Words{"max_steps=3"}), Succeeds());
  EXPECT_TRUE(ReadJson(Path("out/trainer_state.json")).at("best_metric").is_null());
  ASSERT_THAT(Train("out", words + Words{"max_steps=5", "resume_from_checkpoint=true"}),
              Succeeds());
  EXPECT_EQ(ReadJson(Path("out/trainer_state.json")).at("global_step"), 5);
}

TEST_F(ResumeChangesTest, TheStepsEndWhereTheyWould) {
  ASSERT_THAT(Train("out", {"max_steps=4"}), Succeeds());
  ASSERT_THAT(Train("out", {"max_steps=6", "resume_from_checkpoint=true", "ignore_data_skip=true"}),
              Succeeds());
  EXPECT_EQ(StepNumbers("out"), (std::vector<int>{1, 2, 3, 4, 5, 6}));
  // The run then continues like any other.
  ASSERT_THAT(Train("out", {"max_steps=8", "resume_from_checkpoint=true"}), Succeeds());
  EXPECT_EQ(StepNumbers("out"), (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8}));
  const Words stream = {"streaming=true", "buffer_size=7"};
  ASSERT_THAT(Train("stream", stream + Words{"max_steps=3"}), Succeeds());
  ASSERT_THAT(Train("stream", stream + Words{"max_steps=5", "resume_from_checkpoint=true",
                                             "ignore_data_skip=true"}),
              Succeeds());
  EXPECT_EQ(StepNumbers("stream"), (std::vector<int>{1, 2, 3, 4, 5}));
  // A run that ended by early stopping also counts as ended.
  const Words early = first_is_best_ + Words{"early_stopping_steps=2", "max_steps=9"};
  ASSERT_THAT(Train("early", early), Succeeds());
  const std::string model = ReadText(Path("early/model.safetensors"));
  ASSERT_THAT(Train("early", early + Words{"resume_from_checkpoint=true"}), Succeeds());
  EXPECT_EQ(StepNumbers("early"), (std::vector<int>{1, 2, 3}));
  EXPECT_TRUE(ReadText(Path("early/model.safetensors")) == model);
}

// After resuming from an earlier checkpoint, the later checkpoints belong to an abandoned run.
TEST_F(ResumeChangesTest, GoingBackLeavesTheLaterCheckpointsBehind) {
  ASSERT_THAT(Train("out", {"max_steps=6"}), Succeeds());
  ASSERT_THAT(Train("out", {"max_steps=4", "learning_rate=1e-4",
                            "resume_from_checkpoint=out/checkpoint-2"}),
              Succeeds());
  const std::string model = ReadText(Path("out/model.safetensors"));
  const CommandResult on =
      Train("out", {"max_steps=5", "learning_rate=1e-4", "resume_from_checkpoint=true"});
  ASSERT_THAT(on, Succeeds());
  EXPECT_THAT(on.err, AllOf(HasSubstr("passed over: out/checkpoint-6: of an earlier run"),
                            HasSubstr("goes on after step 4, from out/checkpoint-4")));
  EXPECT_TRUE(ReadText(Path("out/checkpoint-4/model.safetensors")) == model);
  // A start that is rejected changes nothing.
  EXPECT_THAT(Train("out", {"max_samples=9", "max_steps=4", "learning_rate=1e-4",
                            "resume_from_checkpoint=out/checkpoint-1"}),
              Refuses("max_samples was nothing, is 9"));
  EXPECT_THAT(
      Train("out", {"max_steps=6", "learning_rate=1e-4", "resume_from_checkpoint=true"}).err,
      HasSubstr("goes on after step 5, from out/checkpoint-5"));
  // A restart after a failure does not use the abandoned checkpoints either.
  ASSERT_THAT(Train("killed", {"max_steps=4"}), Succeeds());
  const Words started = CommandOf("killed", {"max_steps=12", "save_steps=30", "max_restarts=1",
                                             "resume_from_checkpoint=killed/checkpoint-1"});
  Command command(Options(Paused("10", started)));
  ASSERT_TRUE(command.WaitForOutput("step 9/12")) << command.Wait().Describe();
  ASSERT_FALSE(command.Children().empty());
  kill(command.Children().back(), SIGKILL);
  LetGo(10);
  const CommandResult restarted = command.Wait();
  ASSERT_THAT(restarted, Succeeds());
  EXPECT_THAT(restarted.err, AllOf(HasSubstr("starts again (1 of 1)"),
                                   HasSubstr("passed over: killed/checkpoint-4: of an earlier run"),
                                   HasSubstr("goes on after step 1, from killed/checkpoint-1")));
  EXPECT_EQ(StepNumbers("killed").size(), 12u);
  // If the resumed run is interrupted before it saves anything, the checkpoint that it started from
  // counts as its own.
  ASSERT_THAT(Train("short", {"max_steps=5"}), Succeeds());
  ASSERT_THAT(Train("short", {"max_steps=4", "save_strategy=no",
                              "resume_from_checkpoint=short/checkpoint-3"}),
              Succeeds());
  const CommandResult again = Train("short", {"max_steps=4", "resume_from_checkpoint=true"});
  ASSERT_THAT(again, Succeeds());
  EXPECT_THAT(again.err, AllOf(HasSubstr("passed over: short/checkpoint-5"),
                               HasSubstr("passed over: short/checkpoint-4"),
                               HasSubstr("goes on after step 3")));
}

// The loss has a term over a group of examples, so it depends on how a step is split into batches.
TEST_F(ResumeChangesTest, GroupsOfALossStayWhatTheyWere) {
  const Words kto = {"stage=kto", "dataset=judged"};
  ASSERT_THAT(Train("kto", kto + Words{"max_steps=2"}), Succeeds());
  const Words other = {"per_device_train_batch_size=4", "gradient_accumulation_steps=1",
                       "max_steps=3", "resume_from_checkpoint=true"};
  EXPECT_THAT(Train("kto", kto + other),
              Refuses("its loss has a term over each 4 examples (per_device_train_batch_size, in "
                      "stage kto x dp), which was over 2"));
  EXPECT_THAT(Train("kto",
                    kto + Words{"per_device_train_batch_size=1", "max_steps=3",
                                "resume_from_checkpoint=true"},
                    {"-n", "2"}),
              Succeeds());
  const Words moe = {"model_name_or_path=" + Runfile("tests/golden/stages/model_moe"),
                     "moe_aux_loss_coef=0.5"};
  ASSERT_THAT(Train("moe", moe + Words{"max_steps=2"}), Succeeds());
  EXPECT_THAT(Train("moe", moe + other), Refuses("over each 4 examples"));
  ASSERT_THAT(Train("sft", {"max_steps=2"}), Succeeds());
  EXPECT_THAT(Train("sft", other), Succeeds());
}

// On another number of ranks, a stream gives the same examples in the same order; its rows and its
// template must be unchanged.
TEST_F(ResumeChangesTest, AStreamResumesOnOtherRanks) {
  const Words words = {"streaming=true", "buffer_size=7", "preprocessing_batch_size=5",
                       "max_steps=12"};
  const Words two = {"per_device_train_batch_size=1", "resume_from_checkpoint=true"};
  ASSERT_THAT(Train("whole", words), Succeeds());
  const auto expect_same_losses = [&](const std::string& out) {
    const json whole = Steps("whole"), found = Steps(out);
    ASSERT_EQ(found.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_NEAR(found[i]["loss"].get<double>(), whole[i]["loss"].get<double>(),
                  1e-5 * whole[i]["loss"].get<double>())
          << out << " step " << i + 1;
    }
  };
  KeepUpTo("whole", 7, "dp2");
  ASSERT_THAT(Train("dp2", words + two, {"-n", "2"}), Succeeds());
  expect_same_losses("dp2");
  KeepUpTo("dp2", 9, "back");
  ASSERT_THAT(Train("back", words + Words{"resume_from_checkpoint=true"}), Succeeds());
  expect_same_losses("back");
  // With several workers the batches are taken from each in turn, so the batch size determines the
  // order.
  const Words lanes = words + Words{"dataloader_num_workers=2", "max_steps=2"};
  ASSERT_THAT(Train("lanes", lanes), Succeeds());
  EXPECT_THAT(Train("lanes", lanes + two + Words{"max_steps=3"}, {"-n", "2"}),
              Refuses("per_device_train_batch_size was 2, is 1: with dataloader_num_workers 2"));
}

TEST_F(ResumeChangesTest, AStreamsRowsAndTemplateAreThoseThatWereRead) {
  fs::copy(Runfile("tests/golden/stages/data"), Path("data"), fs::copy_options::recursive);
  Write("own.lua", "return { like = \"chatml\", default_system = \"Be brief.\" }\n");
  const Words words = {"dataset_dir=data", "template=./own.lua", "streaming=true", "buffer_size=7"};
  ASSERT_THAT(Train("out", words + Words{"max_steps=2"}), Succeeds());
  const Words on = words + Words{"max_steps=3", "resume_from_checkpoint=true"};
  const json rows = ReadJson(Path("data/talks.json"));
  const auto write = [&](const json& changed) {
    fs::remove(Path("data/talks.json"));
    Write("data/talks.json", changed.dump());
  };
  json turned = rows;
  std::reverse(turned.begin(), turned.end());
  write(turned);
  EXPECT_THAT(Train("out", on), Refuses("data sets talks: their rows give other examples than they "
                                        "gave: a file or the template has changed"));
  write(rows);
  Write("own.lua", "return { like = \"chatml\", default_system = \"Be long.\" }\n");
  EXPECT_THAT(Train("out", on), Refuses("a file or the template has changed"));
  Write("own.lua", "return { like = \"chatml\", default_system = \"Be brief.\" }\n");
  fs::rename(Path("data"), Path("elsewhere"));
  EXPECT_THAT(Train("out", on + Words{"dataset_dir=elsewhere"}), Succeeds());
}

// save_strategy: best saves whenever an evaluation is the best so far. Intervals given as fractions
// of all steps must be multiples of one another.
TEST_F(ResumeChangesTest, SavesTheBest) {
  const Words words = {"val_size=6",         "eval_strategy=steps",         "eval_steps=1",
                       "save_strategy=best", "load_best_model_at_end=true", "max_steps=4"};
  ASSERT_THAT(
      Train("rising", words + Words{"greater_is_better=true", "metric_for_best_model=loss"}),
      Succeeds());
  EXPECT_TRUE(Has("rising/checkpoint-1") && !Has("rising/checkpoint-2") &&
              !Has("rising/checkpoint-4"));
  EXPECT_TRUE(ReadText(Path("rising/model.safetensors")) ==
              ReadText(Path("rising/checkpoint-1/model.safetensors")));
  ASSERT_THAT(Train("falling", words), Succeeds());
  const json state = ReadJson(Path("falling/trainer_state.json"));
  double best = std::numeric_limits<double>::infinity();
  for (const json& entry : state.at("log_history")) {
    if (!entry.contains("eval_loss")) continue;
    const double loss = entry.at("eval_loss");
    EXPECT_EQ(Has("falling/checkpoint-" + entry.at("step").dump()), loss < best) << entry;
    best = std::min(best, loss);
  }
  EXPECT_EQ(state.at("best_metric"), best);
  EXPECT_THAT(Train("none", {"save_strategy=best", "max_steps=1"}),
              FailsWith(2, HasSubstr("save_strategy: best: expected an eval_strategy beside it")));

  const Words parts = {"val_size=6", "eval_strategy=steps", "load_best_model_at_end=true",
                       "max_steps=8"};
  ASSERT_THAT(Train("parts", parts + Words{"eval_steps=0.25", "save_steps=0.5"}), Succeeds());
  EXPECT_TRUE(Has("parts/checkpoint-4") && Has("parts/checkpoint-8") && !Has("parts/checkpoint-2"));
  EXPECT_THAT(Train("mixed", parts + Words{"eval_steps=2", "save_steps=0.5"}),
              FailsWith(2, HasSubstr("save_steps 0.5 must be a multiple of eval_steps 2")));
  EXPECT_THAT(Train("mixed", parts + Words{"eval_steps=0.3", "save_steps=0.5"}),
              FailsWith(2, HasSubstr("save_steps 0.5 must be a multiple of eval_steps 0.3")));
}

// A scheduler's signal reaches the process group (so that each rank gets it twice) or only one
// rank; or it comes before there is anything to save.
TEST_F(ResumeChangesTest, SignalsComeInSeveralWays) {
  const Words words = {"max_steps=100000", "save_strategy=no", "per_device_train_batch_size=1"};
  for (const bool group : {true, false}) {
    const std::string out = group ? "group" : "one";
    SCOPED_TRACE(out);
    Command command(Options(CommandOf(out, words, {"-n", "2"})));
    ASSERT_TRUE(command.WaitForOutput("step 3/100000"));
    group ? kill(-command.pid(), SIGTERM) : kill(command.Children().back(), SIGTERM);
    const CommandResult ended = command.Wait();
    EXPECT_EQ(ended.exit_code, 128 + SIGTERM) << ended.Describe();
    EXPECT_THAT(ended.err,
                AllOf(HasSubstr("SIGTERM: saved after step"), Not(HasSubstr("ended by signal"))));
  }
  for (const Words& options : {Words{}, Words{"-n", "2"}}) {
    const std::string out = options.empty() ? "early" : "early_ranks";
    SCOPED_TRACE(out);
    Command command(
        Options(CommandOf(out,
                          Words{"stage=dpo", "dataset=pairs", "precompute_ref_log_probs=true",
                                "max_steps=3", "save_strategy=no"},
                          options)));
    ASSERT_TRUE(command.WaitForOutput("computing those of"));
    command.Signal(SIGUSR1);
    const CommandResult ended = command.Wait();
    ASSERT_THAT(ended, Succeeds());
    EXPECT_THAT(ended.err, HasSubstr("SIGUSR1: saved after step 1"));
  }
  const CommandOptions alone = Options(CommandOf("alone", words + Words{"save_only_model=true"}));
  Command command(alone);
  ASSERT_TRUE(command.WaitForOutput("step 3/100000"));
  command.Signal(SIGTERM);
  const CommandResult ended = command.Wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGTERM) << ended.Describe();
  EXPECT_THAT(ended.err, AllOf(HasSubstr("with save_only_model no run can resume from it"),
                               Not(HasSubstr("resumes from there"))));
  EXPECT_THAT(Train("alone", {"max_steps=2"}),
              FailsWith(2, AllOf(HasSubstr("alone is not empty"),
                                 Not(HasSubstr("resume_from_checkpoint")))));
}

// Training is rejected if the stored reference log-probs differ from those that were written.
TEST_F(ResumeChangesTest, KeptReferencesAreThoseThatWereWritten) {
  const Words words = {"stage=dpo", "dataset=pairs", "precompute_ref_log_probs=true"};
  ASSERT_THAT(Train("out", words + Words{"max_steps=1"}), Succeeds());
  json kept = ReadJson(Path("out/reference_log_probs.json"));
  kept["log_probs"][0][0] = kept["log_probs"][0][0].get<double>() + 1e-6;
  Write("out/reference_log_probs.json", kept.dump());
  EXPECT_THAT(
      Train("out", words + Words{"max_steps=2", "resume_from_checkpoint=true"}),
      FailsWith(2, HasSubstr("out/reference_log_probs.json: its log-probs are not those that were "
                             "written; overwrite_cache: true computes them again")));
}

}  // namespace
}  // namespace moonring::testing
