// Runs that resume from a checkpoint equal the same runs without interruption: bit-identical
// weights, every line of the log, the evaluations. Also invalid resumes.

#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/products/onednn_products.h"
#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ResumeTest : public ResumedRuns {};

// Interrupted in the first and in the second epoch, with evaluations, and with the best checkpoint
// kept.
TEST_F(ResumeTest, FullFineTuningResumesBitForBit) {
  ExpectResumes("full",
                {"val_size=6", "num_train_epochs=2", "eval_strategy=steps", "eval_steps=1",
                 "load_best_model_at_end=true", "neftune_noise_alpha=5"},
                {1, 4, 9});
}

TEST_F(ResumeTest, EveryKindResumesBitForBit) {
  ExpectResumes("lora", {"finetuning_type=lora", "lora_dropout=0.1", "max_steps=4"}, {2});
  ExpectResumes("freeze", {"finetuning_type=freeze", "freeze_trainable_layers=1", "max_steps=3"},
                {1});
  ExpectResumes("bf16", {"bf16=true", "max_steps=4"}, {2});
  ExpectResumes("pure", {"pure_bf16=true", "max_steps=4"}, {2});
  // Gradients are so large that the first steps overflow, before and after the checkpoints.
  const Words fp16 = {"fp16=true", "stage=dpo", "dataset=pairs", "pref_beta=20", "max_steps=6"};
  ExpectResumes("fp16", fp16, {1, 3});
  ExpectResumes("fp16_held", fp16 + Words{"cast_weights=step", "finetuning_type=lora"}, {2});
  ExpectResumes("packed", {"neat_packing=true", "max_steps=4"},
                {2, 4});  // 4: it died between its last step and its end
  ExpectResumes("sgd", {"optim=sgd", "max_steps=3"}, {1});
  if (kernels::HasOneDnn()) {
    const std::string by = "onednn:forward+narrow_forward+narrow_weight_gradient";
    ExpectResumes("onednn", {"cpu_products=" + by, "max_steps=3"}, {1});
  }
}

TEST_F(ResumeTest, EveryStageResumesBitForBit) {
  ExpectResumes("rm", {"stage=rm", "dataset=pairs", "max_steps=4"}, {2});
  ExpectResumes("dpo", {"stage=dpo", "dataset=pairs", "max_steps=4"}, {2});
  ExpectResumes("dpo_lora", {"stage=dpo", "dataset=pairs", "finetuning_type=lora", "max_steps=4"},
                {2});
  ExpectResumes("dpo_cached",
                {"stage=dpo", "dataset=pairs", "precompute_ref_log_probs=true", "max_steps=4"},
                {2});
  ExpectResumes("bco", {"stage=dpo", "dataset=pairs", "pref_bco_weight=0.5", "max_steps=4"}, {2});
  ExpectResumes("kto", {"stage=kto", "dataset=judged", "max_steps=4"}, {2});
}

// Interrupted in the middle of the first and of the second epoch.
TEST_F(ResumeTest, OrdersByLengthResumeBitForBit) {
  ExpectResumes("grouped", {"group_by_length=true", "max_samples=20", "num_train_epochs=2"},
                {2, 7});
  ExpectResumes("grouped_ranks",
                {"group_by_length=true", "per_device_train_batch_size=1", "max_steps=4"}, {2},
                {"-n", "2"});
}

TEST_F(ResumeTest, FreshWeightsResumeBitForBit) {
  ExpectResumes("fresh", {"train_from_scratch=true", "max_steps=4"}, {2});
  ExpectResumes("fresh_dpo",
                {"train_from_scratch=true", "stage=dpo", "dataset=pairs", "max_steps=3"}, {1});
}

TEST_F(ResumeTest, StreamsResumeBitForBit) {
  const Words stream = {"streaming=true", "buffer_size=7", "max_steps=8",
                        "preprocessing_batch_size=5"};
  ExpectResumes("stream", stream, {3, 7});
  fs::create_directories(Path("two"));
  json info;
  for (const std::string name : {"short", "long"}) {
    json rows = json::array();
    for (int i = 0; i < 30; ++i) {
      std::string answer;
      for (int word = 0; word <= (name == "long" ? 20 : 2) + i % 5; ++word)
        answer += " moon " + std::to_string(i * word);
      rows.push_back(
          {{"instruction", "Count " + std::to_string(i) + "."}, {"input", ""}, {"output", answer}});
    }
    Write("two/" + name + ".json", rows.dump());
    info[name] = {{"file_name", name + ".json"}};
  }
  Write("two/dataset_info.json", info.dump());
  ExpectResumes(
      "mixed",
      stream + Words{"dataset_dir=two", "dataset=short,long", "mix_strategy=interleave_over",
                     "interleave_probs=0.7,0.3", "neat_packing=true"},
      {3, 7});
}

TEST_F(ResumeTest, RanksResumeBitForBit) {
  ExpectResumes("sp2", {"sequence_parallel_size=2", "max_steps=4"}, {2});
  ExpectResumes("zero3", {"zero_stage=3", "max_steps=4", "per_device_train_batch_size=1"}, {2},
                {"-n", "2"});
  ExpectResumes("zero3_fp16",
                {"zero_stage=3", "fp16=true", "max_steps=4", "per_device_train_batch_size=1",
                 "stage=dpo", "dataset=pairs", "pref_beta=20"},
                {2}, {"-n", "2"});
}

TEST_F(ResumeTest, AnyPlaceOfStatesResumesBitForBit) {
  const Words away = {"max_steps=3", "bf16=true", "offload_optimizer=cpu", "offload_weights=cpu"};
  ExpectResumes("away_bf16", away + Words{"optimizer_state=bf16"}, {2});
  ExpectResumes("away_8bit", away + Words{"optimizer_state=8bit"}, {2});
  ExpectResumes("held_bf16", {"max_steps=3", "bf16=true", "optimizer_state=bf16"}, {2});
  ExpectResumes(
      "zero2_8bit",
      {"zero_stage=2", "max_steps=3", "per_device_train_batch_size=1", "optimizer_state=8bit"}, {2},
      {"-n", "2"});
}

// The same examples in the same order are summed in another order: results differ only by rounding.
TEST_F(ResumeTest, ResumesOnOtherRanks) {
  ASSERT_THAT(Train("whole", {"max_steps=4"}), Succeeds());
  const json lines = Steps("whole");
  struct Shape {
    const char* name;
    Words words, options;
  };
  const std::vector<Shape> shapes = {
      {"sp2", {"sequence_parallel_size=2"}, {}},
      {"dp2", {"per_device_train_batch_size=1", "zero_stage=2"}, {"-n", "2"}},
      {"dp2sp2",
       {"per_device_train_batch_size=1", "sequence_parallel_size=2", "zero_stage=3",
        "sequence_parallel_mode=ulysses"},
       {"-n", "4"}}};
  const auto expect_lines = [&](const std::string& out) {
    const json found = Steps(out);
    ASSERT_EQ(found.size(), lines.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      EXPECT_NEAR(found[i]["loss"].get<double>(), lines[i]["loss"].get<double>(),
                  1e-5 * lines[i]["loss"].get<double>())
          << out << " step " << i + 1;
      EXPECT_NEAR(found[i]["grad_norm"].get<double>(), lines[i]["grad_norm"].get<double>(),
                  1e-4 * lines[i]["grad_norm"].get<double>())
          << out << " step " << i + 1;
    }
  };
  for (const Shape& shape : shapes) {
    KeepUpTo("whole", 2, shape.name);
    ASSERT_THAT(Train(shape.name, Words{"max_steps=4", "resume_from_checkpoint=true"} + shape.words,
                      shape.options),
                Succeeds());
    expect_lines(shape.name);
    const std::string back = std::string(shape.name) + "_back";
    KeepUpTo(shape.name, 3, back);
    ASSERT_THAT(Train(back, {"max_steps=4", "resume_from_checkpoint=true"}), Succeeds());
    expect_lines(back);
  }
}

TEST_F(ResumeTest, TakesTheNewestThatIsWhole) {
  ASSERT_THAT(Train("out", {"max_steps=4", "save_total_limit=3"}), Succeeds());
  EXPECT_FALSE(fs::exists(Path("out/checkpoint-1")));
  const std::string model = ReadText(Path("out/checkpoint-4/model.safetensors"));
  Write("out/checkpoint-4/model.safetensors", model.substr(0, 100));
  fs::remove(Path("out/checkpoint-3/manifest.json"));
  fs::create_directories(Path("out/checkpoint-5.partial"));
  const CommandResult result = Train("out", {"max_steps=4", "resume_from_checkpoint=true"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("passed over: out/checkpoint-4: model.safetensors has 100 bytes, expected"),
            HasSubstr("passed over: out/checkpoint-3: no manifest.json"),
            HasSubstr("goes on after step 2, from out/checkpoint-2")));
  EXPECT_TRUE(ReadText(Path("out/checkpoint-4/model.safetensors")) == model);
  // There is nothing left to train, but checkpoints in excess of a lower save_total_limit are
  // removed.
  ASSERT_THAT(Train("out", {"max_steps=4", "resume_from_checkpoint=true", "save_total_limit=1"}),
              Succeeds());
  EXPECT_TRUE(fs::exists(Path("out/checkpoint-4")));
  EXPECT_FALSE(fs::exists(Path("out/checkpoint-2")) || fs::exists(Path("out/checkpoint-3")));
}

// A folder has checkpoints of an older run; a new run that ended before its first checkpoint does
// not count them as its own.
TEST_F(ResumeTest, LeavesWhatIsOfAnEarlierRun) {
  ASSERT_THAT(Train("out", {"max_steps=2"}), Succeeds());
  ASSERT_THAT(Train("out", {"max_steps=1", "save_strategy=no", "overwrite_output_dir=true"}),
              Succeeds());
  EXPECT_THAT(
      Train("out", {"max_steps=3", "resume_from_checkpoint=true"}),
      FailsWith(2, HasSubstr("passed over: out/checkpoint-2: of an earlier run in this folder")));
  const CommandResult again = Train("out", {"max_steps=3", "resume_from_checkpoint=auto"});
  ASSERT_THAT(again, Succeeds());
  EXPECT_THAT(again.err, AllOf(HasSubstr("passed over: out/checkpoint-2"), HasSubstr("step 1/3")));
  ASSERT_THAT(Train("out", {"max_steps=4", "resume_from_checkpoint=auto"}), Succeeds());
  EXPECT_EQ(Steps("out").size(), 4);
  // save_total_limit counts only the run's own checkpoints.
  ASSERT_THAT(Train("limit", {"max_steps=3", "save_steps=3"}), Succeeds());
  ASSERT_THAT(Train("limit", {"max_steps=2", "save_steps=2", "overwrite_output_dir=true"}),
              Succeeds());
  for (const char* steps : {"max_steps=4", "max_steps=4", "max_steps=6"}) {
    ASSERT_THAT(Train("limit",
                      {steps, "save_steps=2", "save_total_limit=2", "resume_from_checkpoint=true"}),
                Succeeds());
    for (const char* kept : {"checkpoint-3", "checkpoint-4"})
      EXPECT_TRUE(fs::exists(Path(std::string("limit/") + kept))) << kept << " after " << steps;
    EXPECT_EQ(fs::exists(Path("limit/checkpoint-2")), steps == std::string("max_steps=4"));
  }
  // A start that is rejected leaves an empty folder empty.
  EXPECT_EQ(Train("other", {"max_steps=1", "dataset=unknown"}).exit_code, 2);
  ASSERT_THAT(Train("other", {"max_steps=1"}), Succeeds());
}

TEST_F(ResumeTest, SaysWhatIsWrong) {
  ASSERT_THAT(Train("out", {"max_steps=2", "save_total_limit=1"}), Succeeds());
  EXPECT_THAT(
      Train("out", {"max_steps=2", "resume_from_checkpoint=false"}),
      FailsWith(2, AllOf(HasSubstr("output_dir: out is not empty"),
                         HasSubstr("resume_from_checkpoint: true resumes from its checkpoint-2"))));
  const auto resumed = [&](const Words& more) {
    return Train("out", Words{"max_steps=3", "resume_from_checkpoint=true"} + more);
  };
  const auto refused = [](const std::string& why) {
    return FailsWith(2, AllOf(HasSubstr("out/checkpoint-2 is of another run: "), HasSubstr(why),
                              HasSubstr("ignore_data_skip: true")));
  };
  EXPECT_THAT(resumed({"seed=7"}), refused("seed was 42, is 7"));
  EXPECT_THAT(resumed({"template=smollm2", "cutoff_len=150"}),
              refused("cutoff_len was 160, is 150; template was chatml, is smollm2"));
  EXPECT_THAT(resumed({"max_samples=5"}), refused("max_samples was nothing, is 5"));
  EXPECT_THAT(resumed({"gradient_accumulation_steps=1"}), refused("a step of 2 examples"));
  EXPECT_THAT(resumed({"resume_from_checkpoint=nowhere"}),
              FailsWith(2, HasSubstr("resume_from_checkpoint: nowhere: no such folder")));
  const CommandResult told = resumed({"save_steps=2", "learning_rate=2e-3"});
  ASSERT_THAT(told, Succeeds());
  EXPECT_THAT(told.err, AllOf(HasSubstr("resumes with a change: learning_rate was 0.001, is 0.002"),
                              HasSubstr("max_steps was 2, is 3"), Not(HasSubstr("save_steps"))));
  const CommandResult all_the_same = resumed({"seed=7", "ignore_data_skip=true", "max_steps=4"});
  ASSERT_THAT(all_the_same, Succeeds());
  EXPECT_THAT(all_the_same.err, HasSubstr("resumes with a change: seed was 42, is 7"));
  ASSERT_THAT(Train("alone", {"max_steps=1", "save_only_model=true"}), Succeeds());
  EXPECT_THAT(Train("alone", {"max_steps=2", "resume_from_checkpoint=true"}),
              FailsWith(2, HasSubstr("no whole checkpoint in alone: passed over: "
                                     "alone/checkpoint-1: it has only a model")));
  const CommandResult again = Train("alone", {"max_steps=2", "resume_from_checkpoint=auto"});
  ASSERT_THAT(again, Succeeds());
  EXPECT_EQ(Steps("alone").size(), 2);
}

// With max_restarts, killed ranks are started again by a launcher, which exists even for a single
// rank. In a sandbox the ranks can detect the restart too.
TEST_F(ResumeTest, RanksThatFailAreStartedAgain) {
  fs::copy(Runfile("tests/golden/stages"), Path("stages"),
           fs::copy_options::recursive);  // a sandbox follows links, and runfiles are links
  const Words words = {"model_name_or_path=stages/model", "dataset_dir=stages/data", "max_steps=60",
                       "save_steps=5", "save_total_limit=2"};
  const std::vector<std::tuple<std::string, Words, Words>> kinds = {
      {"one", {}, {}},
      {"two", {"sequence_parallel_size=2"}, {}},
      {"boxed", {"sequence_parallel_size=2"}, {"--sandbox", "--sandbox-root", folder_}}};
  for (const auto& [name, more, options] : kinds) {
    SCOPED_TRACE(name);
    const std::string again = name + "_again";
    ASSERT_THAT(Train(name, words + more), Succeeds());
    const Words started = CommandOf(again, words + more + Words{"max_restarts=2"}, options);
    Command command(Options(options.empty() ? Paused("8,32", started)
                                            : started));  // a sandbox has no files to wait for
    for (const int step : {7, 31}) {
      ASSERT_TRUE(command.WaitForOutput("step " + std::to_string(step) + "/60"))
          << command.Wait().Describe();
      ASSERT_FALSE(command.Children().empty());
      kill(command.Children().back(), SIGKILL);
      LetGo(step + 1);
    }
    const CommandResult result = command.Wait();
    for (const int step : {8, 32})
      fs::remove(Path("go" + std::to_string(step)));  // for the next kind
    ASSERT_THAT(result, Succeeds());
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("ended by signal 9"), HasSubstr("starts again (1 of 2)"),
                      HasSubstr("starts again (2 of 2)"), HasSubstr("goes on after step ")));
    ExpectSameRun(name, again);
  }
}

// In the folder of an older run, a restart does not use the older run's checkpoints. Under
// torchrun, torchrun restarts the ranks, and the message says so.
TEST_F(ResumeTest, StartedAgainItTakesItsOwnCheckpointsAlone) {
  const Words words = {"max_steps=20", "save_strategy=no", "max_restarts=1"};
  ASSERT_THAT(Train("out", {"max_steps=2"}), Succeeds());
  Command command(
      Options(Paused("8", CommandOf("out", words + Words{"overwrite_output_dir=true"}))));
  ASSERT_TRUE(command.WaitForOutput("step 7/20")) << command.Wait().Describe();
  ASSERT_FALSE(command.Children().empty());
  kill(command.Children().back(), SIGKILL);
  LetGo(8);
  const CommandResult result = command.Wait();
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("passed over: out/checkpoint-2: of an earlier run in this folder"),
                    Not(HasSubstr("goes on after step"))));
  ASSERT_THAT(Train("unbroken", words), Succeeds());
  ExpectSameRun("unbroken", "out");

  ASSERT_THAT(Train("torchrun", {"max_steps=2"}), Succeeds());
  CommandOptions options = Options(CommandOf("torchrun", {"max_steps=3"}));
  options.environment["TORCHELASTIC_RESTART_COUNT"] = "1";
  const CommandResult second = RunMoonring(options);
  ASSERT_THAT(second, Succeeds());
  EXPECT_THAT(second.err, HasSubstr("goes on after step 2, from torchrun/checkpoint-2"));
}

// kill -9 at random moments, of the command or of one rank, in training and while saving: each time
// the run resumes from the last complete checkpoint. It saves at each step, so that many kills hit
// a save. MOONRING_KILLS is the number of kills of each kind.
TEST_F(ResumeTest, KilledAtRandomMomentsTheRunEndsAsIfItHadNotBeen) {
  const char* asked = std::getenv("MOONRING_KILLS");
  const int wanted = asked != nullptr ? std::atoi(asked) : 2;
  const Words stream = {"streaming=true", "buffer_size=7", "preprocessing_batch_size=5"};
  const std::vector<std::pair<std::string, Words>> kinds = {
      {"full", {"neat_packing=true"}},
      {"dpo", {"stage=dpo", "dataset=pairs", "precompute_ref_log_probs=true"}},
      {"lora", {"finetuning_type=lora", "lora_dropout=0.1"}},
      {"stream", stream},
      {"sp2", {"sequence_parallel_size=2"}}};
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    const auto& [name, more] = kinds[kind];
    const Words words = more + Words{"max_steps=8", "save_total_limit=2"};
    SCOPED_TRACE(name);
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_THAT(Train(name, words), Succeeds());
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::mt19937 random(static_cast<unsigned>(kind));
    const std::string again = name + "_again";
    for (int kills = 0; kills < wanted;) {
      Command command(Options(CommandOf(again, words + Words{"resume_from_checkpoint=auto"})));
      std::this_thread::sleep_for(std::chrono::duration<double>(
          std::uniform_real_distribution<double>(0.2, 1.0)(random) * seconds));
      const std::vector<pid_t> ranks = command.Children();
      const pid_t victim =
          ranks.empty() || random() % 2 == 0 ? command.pid() : ranks[random() % ranks.size()];
      if (Alive(victim)) ++kills, kill(victim, SIGKILL);
      command.Wait();
      if (!fs::exists(Path(again))) continue;  // it was not reached yet
      for (const auto& entry : fs::directory_iterator(Path(again))) {
        const bool is_good = entry.path().filename().string().rfind("checkpoint-", 0) == 0 &&
                             !entry.path().has_extension();
        EXPECT_TRUE(!is_good || fs::exists(entry.path() / "manifest.json")) << entry.path();
      }
      if (fs::exists(Path(again + "/train_results.json")))
        fs::remove_all(Path(again));  // it was through before its turn came
    }
    const CommandResult result = Train(again, words + Words{"resume_from_checkpoint=auto"});
    ASSERT_THAT(result, Succeeds());
    EXPECT_EQ(result.err.find("passed over"), std::string::npos) << result.err;
    ExpectSameRun(name, again);
  }
}

// The disk is too full for some files: the model of 382 KB fits, its states of 1.1 MB do not; or
// nothing fits, on ranks that shard the weights.
TEST_F(ResumeTest, AFullDiskCostsTheCheckpointAlone) {
  CommandOptions options = Options(CommandOf("out", {"max_steps=3", "save_steps=2"}));
  options.largest_file = 600'000;
  const CommandResult result = RunMoonring(options);
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(
      result.err,
      HasSubstr(
          "checkpoint-2 was not saved: out/checkpoint-2.partial/states-00001-of-00001.safetensors: "
          "cannot be written: File too large; there is none yet; "
          "training continues"));
  EXPECT_EQ(Steps("out").size(), 3);
  for (const auto& entry : fs::directory_iterator(Path("out")))
    EXPECT_EQ(entry.path().filename().string().find("checkpoint-"), std::string::npos)
        << entry.path();

  ASSERT_THAT(Train("shared", {"max_steps=1", "zero_stage=3", "per_device_train_batch_size=1"},
                    {"-n", "2"}),
              Succeeds());
  options = Options(CommandOf("shared",
                              {"max_steps=3", "zero_stage=3", "per_device_train_batch_size=1",
                               "resume_from_checkpoint=true"},
                              {"-n", "2"}));
  options.largest_file = 300'000;
  const CommandResult shared = RunMoonring(options);
  EXPECT_FALSE(shared.timed_out);
  EXPECT_EQ(shared.exit_code, 1) << shared.err;  // the model itself, in the end
  EXPECT_THAT(
      shared.err,
      AllOf(
          HasSubstr(
              "checkpoint-2 was not saved: rank 0: shared/checkpoint-2.partial/model.safetensors: "
              "cannot be written: File too large; checkpoint-1 is the last "
              "good one; training continues"),
          HasSubstr("shared/model.safetensors: cannot be written: File too large")));
  EXPECT_TRUE(fs::exists(Path("shared/checkpoint-1/manifest.json")));
}

// The disk becomes full at some moment, and later has room again: log lines are held back, failed
// saves are reported, and no line is lost.
TEST_F(ResumeTest, AWhollyFullDiskEndsNoTraining) {
  constexpr int64_t kRoom = int64_t{1} << 40;
  CommandOptions options =
      Options(CommandOf("out", {"max_steps=1000000", "save_steps=5", "save_total_limit=2"}));
  options.largest_file = kRoom;
  Command command(options);
  const auto set_room = [&](int64_t bytes) {
    const rlimit limit{static_cast<rlim_t>(bytes), static_cast<rlim_t>(kRoom)};
    ASSERT_EQ(prlimit(command.pid(), RLIMIT_FSIZE, &limit, nullptr), 0);
  };
  ASSERT_TRUE(command.WaitForOutput("step 7/")) << command.Wait().Describe();
  set_room(1);
  ASSERT_TRUE(command.WaitForOutput("the log waits: ")) << command.Wait().Describe();
  ASSERT_TRUE(command.WaitForOutput(" was not saved: ")) << command.Wait().Describe();
  set_room(kRoom);
  ASSERT_TRUE(command.WaitForOutput("the log is written again")) << command.Wait().Describe();
  command.Signal(SIGTERM);
  const CommandResult result = command.Wait();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.Describe();
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("the log waits: trainer.metrics_log: out/trainer_log.jsonl: cannot "
                              "write: File too large; training continues"),
                    HasSubstr("; training continues")));
  EXPECT_EQ(result.err.find("the log waits"), result.err.rfind("the log waits")) << "said once";
  const json steps = Steps("out");
  for (size_t i = 0; i < steps.size(); ++i) ASSERT_EQ(steps[i].at("current_steps"), i + 1);
  EXPECT_THAT(result.err, HasSubstr("SIGTERM: saved after step " + std::to_string(steps.size())));
}

}  // namespace
}  // namespace moonring::testing
