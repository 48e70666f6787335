// Scripts that users copy resume as `train` does: after a kill before a step, on one rank or two,
// sft, dpo and own_loss end with the same files and log as an uninterrupted run, and so does a
// component that a script registers with run:track. Their evaluations and logs equal those of
// `train` with the same objective.

#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

using ::testing::HasSubstr;

struct Script {
  const char* name;
  const char* data;
  Words more;
};

class CopiedScripts : public ResumedRuns {
 protected:
  Words CommandOfScript(const Script& script, const std::string& out, int sp) const {
    const std::string home = Runfile("tests/golden/stages");
    return Words{script.name,
                 "model=" + home + "/model",
                 "dir=" + home + "/data",
                 std::string("data=") + script.data,
                 "template=chatml",
                 "cutoff=160",
                 "batch=4",
                 "lr=1e-3",
                 "save_steps=1",
                 "out=" + out,
                 "sp=" + std::to_string(sp)} +
           script.more;
  }

  // Starts the script and kills it before `step`, when all files of the earlier steps are written.
  void KillBefore(int step, const Script& script, const std::string& out, int sp) const {
    Words command = CommandOfScript(script, out, sp);
    command.front() = script.name;
    Words paused = {Runfile("tests/scripts/paused.lua"), std::to_string(step), Path("go")};
    paused.insert(paused.end(), command.begin() + 1, command.end());
    CommandOptions options = Options(paused);
    options.environment["PAUSED_SCRIPT"] = script.name;
    Command run(options);
    ASSERT_TRUE(run.WaitForOutput("waits before step " + std::to_string(step)))
        << run.Wait().Describe();
    kill(run.pid(), SIGKILL);
    run.Wait();
  }
};

TEST_F(CopiedScripts, ResumeBitForBitAfterAKill) {
  const std::vector<Script> scripts = {{"sft", "talks", {"epochs=1", "val_size=6"}},
                                       {"dpo", "pairs", {"epochs=1"}},
                                       {"own_loss", "talks", {"steps=6"}}};
  std::mt19937 random(7);
  for (const Script& script : scripts) {
    for (const int sp : {1, 2}) {
      SCOPED_TRACE(script.name + std::to_string(sp));
      const std::string whole = script.name + std::to_string(sp), again = whole + "_again";
      ASSERT_THAT(Run(CommandOfScript(script, whole, sp)), Succeeds());
      const int step = 3 + static_cast<int>(random() % 4);
      KillBefore(step, script, again, sp);
      const CommandResult result = Run(CommandOfScript(script, again, sp) + Words{"resume=true"});
      ASSERT_THAT(result, Succeeds());
      // The newest complete checkpoint is that of the last step or of the one before.
      EXPECT_THAT(result.err, HasSubstr("goes on after step "));
      ExpectSameRun(whole, again);
    }
  }
}

// With the same loss, data and order, every number in the log equals that of `train`.
TEST_F(CopiedScripts, HaveTheNumbersOfTrain) {
  const Script sft = {"sft", "talks", {"epochs=1", "val_size=6"}};
  ASSERT_THAT(Run(CommandOfScript(sft, "script", 1)), Succeeds());
  ASSERT_THAT(Train("train", {"per_device_train_batch_size=4", "gradient_accumulation_steps=1",
                              "count=targets", "num_train_epochs=1", "val_size=6",
                              "eval_strategy=epoch", "weight_decay=0", "micro_batch_tokens=8192"}),
              Succeeds());
  EXPECT_EQ(ReadText(Path("script/model.safetensors")), ReadText(Path("train/model.safetensors")));
  const nlohmann::json ours = Steps("script"), theirs = Steps("train");
  ASSERT_EQ(ours.size(), theirs.size());
  ASSERT_GT(ours.size(), 5);
  for (size_t i = 0; i < ours.size(); ++i) {
    for (const char* name : {"loss", "grad_norm", "lr", "epoch"})
      EXPECT_EQ(ours[i].at(name), theirs[i].at(name)) << i << name;
  }
  EXPECT_EQ(ReadJson(Path("script/eval_results.json")).at("eval_loss"),
            ReadJson(Path("train/eval_results.json")).at("eval_loss"));
}

TEST_F(CopiedScripts, APartThatAScriptAddsResumesToo) {
  const Words words = {"max_steps=6", "sequence_parallel_size=2"};
  const auto command = [&](const std::string& out, const Words& more) {
    Words all = CommandOf(out, words + more);
    all.front() = Runfile("tests/scripts/tracked_part.lua");
    return Words{"-n", "2"} + all;
  };
  ASSERT_THAT(Run(command("whole", {})), Succeeds());
  KeepUpTo("whole", 3, "again");
  const CommandResult result = Run(command("again", {"resume_from_checkpoint=true"}));
  ASSERT_THAT(result, Succeeds());
  ExpectSameRun("whole", "again");
  EXPECT_EQ(ReadJson(Path("whole/part.json")), ReadJson(Path("again/part.json")));
  EXPECT_EQ(ReadJson(Path("again/part.json")).at("seen").at("steps"), 6);
}

}  // namespace
}  // namespace moonring::testing
