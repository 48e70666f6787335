// What each step checks: a non-finite loss or gradient, spikes of the gradient norm, ranks that
// read different data, and a slow rank.

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"
#include "tests/testing/busy_port.h"
#include "trainer/optimizer/zclip.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class UpdatesTest : public Workplace {
 protected:
  // Trains on the examples in the data set's order, four per step, with a checkpoint after each
  // step.
  CommandResult Train(const std::string& fault, int example, const std::string& out,
                      const Words& more) const {
    const std::string home = Runfile("tests/golden/stages");
    Words words = {Runfile("tests/scripts/faulty_example.lua"),
                   fault,
                   std::to_string(example),
                   "model_name_or_path=" + home + "/model",
                   "dataset_dir=" + home + "/data",
                   "stage=sft",
                   "dataset=talks",
                   "output_dir=" + out,
                   "finetuning_type=full",
                   "template=chatml",
                   "cutoff_len=160",
                   "per_device_train_batch_size=2",
                   "gradient_accumulation_steps=2",
                   "learning_rate=1e-3",
                   "lr_scheduler_type=constant",
                   "logging_steps=1",
                   "disable_shuffling=true",
                   "save_steps=1"};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  }

  json StepLine(const std::string& out, int step) const {
    for (const json& line : ReadJsonLines(Path(out + "/trainer_log.jsonl"))) {
      if (line.at("current_steps") == step) return line;
    }
    return json();
  }

  std::string Saved(const std::string& out, int step, const std::string& file) const {
    return ReadText(Path(out + "/checkpoint-" + std::to_string(step) + "/" + file));
  }

  // Starts two ranks that share each sequence, with `folders` as their dataset_dir, and checks that
  // each ends with `message`.
  void ExpectBothEndWith(const ::testing::Matcher<const std::string&>& message, Words command,
                         const std::string (&folders)[2]) const {
    SCOPED_TRACE(::testing::PrintToString(command));
    const std::string home = Runfile("tests/golden/stages");
    const std::string port = FreePort();
    const Words more = {"model_name_or_path=" + home + "/model",
                        "output_dir=out",
                        "overwrite_output_dir=true",
                        "finetuning_type=full",
                        "template=chatml",
                        "cutoff_len=4096",
                        "sequence_parallel_size=2",
                        "per_device_train_batch_size=4",
                        "disable_shuffling=true",
                        "logging_steps=1",
                        "max_steps=12"};
    command.insert(command.end(), more.begin(), more.end());
    std::vector<std::unique_ptr<Command>> ranks;
    for (const int rank : {0, 1}) {
      Words words = command;
      words.push_back("dataset_dir=" + folders[rank]);
      CommandOptions options = Options(words);
      options.environment.merge(std::map<std::string, std::string>{{"RANK", std::to_string(rank)},
                                                                   {"WORLD_SIZE", "2"},
                                                                   {"MASTER_ADDR", "127.0.0.1"},
                                                                   {"MASTER_PORT", port}});
      ranks.push_back(std::make_unique<Command>(options));
    }
    for (const auto& rank : ranks) {
      const CommandResult result = rank->Wait();
      EXPECT_EQ(result.exit_code, 1) << result.Describe();
      EXPECT_THAT(result.err, message);
    }
  }
};

const std::string& Others() {
  static const auto* others = new std::string("ranks that share sequences read other ones: ");
  return *others;
}

TEST_F(UpdatesTest, ASkippedStepLeavesNoTrace) {
  for (const std::string fault : {"loss", "gradient"}) {
    for (const std::string sp : {"1", "2"}) {
      const std::string out = fault + sp;
      const Words words = {"max_steps=4", "on_nonfinite=skip", "sequence_parallel_size=" + sp};
      const CommandResult result = Train(fault, 5, out, words);  // of step 2
      ASSERT_THAT(result, Succeeds());
      EXPECT_THAT(result.err,
                  AllOf(HasSubstr("step 2"), HasSubstr("of the data set (counted from 0)"),
                        HasSubstr("; the step is skipped"), Not(HasSubstr("step 3:"))));
      EXPECT_THAT(result.err,
                  fault == "loss"
                      ? HasSubstr("the layers' results are finite, the loss of them is not")
                      : HasSubstr("in the order of backward"));
      // Step 2 has left the weights and AdamW's state unchanged, and the run continued.
      const std::string states = "states-00001-of-00001.safetensors";
      EXPECT_TRUE(Saved(out, 1, "model.safetensors") == Saved(out, 2, "model.safetensors"));
      EXPECT_TRUE(Saved(out, 1, states) == Saved(out, 2, states));
      EXPECT_FALSE(Saved(out, 2, states) == Saved(out, 3, states));
      EXPECT_FALSE(StepLine(out, 2).contains("loss"));
      EXPECT_EQ(StepLine(out, 2).at("skipped_steps"), 1);
      double mean = 0;
      for (const int step : {1, 3, 4}) mean += StepLine(out, step).at("loss").get<double>() / 3;
      EXPECT_NEAR(ReadJson(Path(out + "/train_results.json")).at("train_loss").get<double>(), mean,
                  1e-12);
    }
  }
}

TEST_F(UpdatesTest, StopsByDefaultAndNamesWhatItWas) {
  const CommandResult loss =
      Train("loss", 5, "loss", {"max_steps=4", "micro_batch_tokens=1"});  // each example alone
  EXPECT_EQ(loss.exit_code, 1) << loss.Describe();
  EXPECT_THAT(loss.err, AllOf(HasSubstr("step 2: the loss is "),
                              HasSubstr("with the examples 5 of the data set"),
                              HasSubstr("stopped before the update")));
  const CommandResult gradient = Train("gradient", 5, "gradient", {"max_steps=4"});
  EXPECT_EQ(gradient.exit_code, 1) << gradient.Describe();
  EXPECT_THAT(gradient.err, AllOf(HasSubstr("the gradient's norm is "),
                                  HasSubstr(" parameters (model.norm.weight, "),
                                  HasSubstr("step 2, examples 4, 5, 6, 7 of the data set")));
}

// The weights become infinite or NaN in one step; the run ends after ten more steps, all of which
// are skipped.
TEST_F(UpdatesTest, TenInARowEndTheRun) {
  const CommandResult result = Train("none", -1, "out",
                                     {"max_steps=30", "on_nonfinite=skip", "learning_rate=1e20",
                                      "optim=sgd", "max_grad_norm=0", "save_strategy=no"});
  EXPECT_EQ(result.exit_code, 1) << result.Describe();
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("step 2: the loss is "), HasSubstr("first after model."),
                    HasSubstr("step 11: "), HasSubstr("10 steps in a row were skipped: stopped"),
                    Not(HasSubstr("step 12"))));
}

// Plain gradient descent changes the weights by the clipped norm times the learning rate. A resumed
// run continues with the history of norms.
TEST_F(UpdatesTest, ASpikeIsClippedByTheHistoryOfNorms) {
  const Words words = {"max_steps=32",   "spike_clip=zclip", "max_grad_norm=1e9",   "optim=sgd",
                       "weight_decay=0", "save_steps=1",     "num_train_epochs=100"};
  const int faulty = 1;  // read again in each epoch
  ASSERT_THAT(Train("spike", faulty, "out", words), Succeeds());
  trainer::ZClip history;
  std::vector<int> spikes;
  for (int step = 1; step <= 32; ++step) {
    const double norm = StepLine("out", step).at("grad_norm");
    const double limit = history.Limit(norm);
    if (limit > norm) continue;
    spikes.push_back(step);
    const StoredTensors before =
        ReadSafetensors(Path("out/checkpoint-" + std::to_string(step - 1) + "/model.safetensors"));
    const StoredTensors after =
        ReadSafetensors(Path("out/checkpoint-" + std::to_string(step) + "/model.safetensors"));
    double moved = 0;
    for (const auto& [name, tensor] : after) {
      for (size_t i = 0; i < tensor.values.size(); ++i)
        moved += std::pow(static_cast<double>(tensor.values[i]) - before.at(name).values[i], 2);
    }
    EXPECT_NEAR(std::sqrt(moved) / 1e-3 / limit, 1.0, 1e-2)
        << "step " << step;  // weights are rounded to fp32 after moving by some 1e-6
  }
  ASSERT_FALSE(spikes.empty());
  const std::string from = Path("out/checkpoint-" + std::to_string(spikes[0] - 1));
  ASSERT_THAT(Train("spike", faulty, "again", words + Words{"resume_from_checkpoint=" + from}),
              Succeeds());
  EXPECT_TRUE(ReadText(Path("again/model.safetensors")) == ReadText(Path("out/model.safetensors")));
}

// Two ranks read files that differ: in a word, in whether answers are desirable, or only in the
// evaluation data.
TEST_F(UpdatesTest, RanksOfASequenceThatReadOtherDataAreNamed) {
  const std::string home = Runfile("tests/golden/stages");
  std::filesystem::create_directories(Path("data"));
  std::string text = ReadText(home + "/data/talks.json");
  text.replace(text.rfind("e"), 1, "o");
  Write("data/talks.json", text);
  nlohmann::json judged = ReadJson(home + "/data/judged.json");
  nlohmann::json info = ReadJson(home + "/data/dataset_info.json");
  const std::string tag = info.at("judged").at("columns").at("kto_tag");
  for (auto& row : judged) row[tag] = !row.at(tag).get<bool>();
  Write("data/judged.json", judged.dump());
  Write("data/dataset_info.json", info.dump());
  const std::string folders[2] = {home + "/data", Path("data")};
  ExpectBothEndWith(AllOf(HasSubstr("step 10: " + Others() + "rank 0 has checksum "),
                          HasSubstr(" of examples 36, 37, 38, 39; rank 1 has checksum ")),
                    {"train", "stage=sft", "dataset=talks"}, folders);
  ExpectBothEndWith(HasSubstr("step 1: " + Others()), {"train", "stage=kto", "dataset=judged"},
                    folders);
  ExpectBothEndWith(HasSubstr("evaluation: " + Others()),
                    {"train", "stage=sft", "dataset=talks", "eval_dataset=talks",
                     "eval_strategy=steps", "eval_on_start=true"},
                    folders);
}

// The tokens are equal, but in step 2 rank 1 has another label id at one position ("value"), or an
// additional label at a document's first token, which is counted but never predicted ("count").
TEST_F(UpdatesTest, RanksOfASequenceWhoseLabelsAloneDifferAreNamed) {
  Write("labels.lua", R"(
    local moonring = require "moonring"
    local kind = table.remove(arg, 1)

    -- `object`, but for what `own` has.
    local function over(object, own)
      return setmetatable(own, { __index = function(_, name)
        return function(_, ...) return object[name](object, ...) end
      end })
    end

    local function otherwise(micro)
      local ids, labels, begin = micro:sequence():ids():tolist(), micro:labels():tolist(), 0
      if kind == "count" then
        assert(labels[1] == -100)
        labels[1] = ids[1]
      else
        labels[#labels] = (labels[#labels] + 1) % 300
      end
      local documents, of = {}, {}
      for d, length in ipairs(micro:sequence():lengths()) do
        documents[d] = { unpack(ids, begin + 1, begin + length) }
        of[d] = { unpack(labels, begin + 1, begin + length) }
        begin = begin + length
      end
      local sequence = moonring.comm.sequence { documents = documents, labels = of }
      return over(micro, { sequence = function() return sequence end,
        labels = function() return moonring.tensor(labels, "int64") end })
    end

    local make = require("moonring.choices.batching").steps
    require("moonring.choices.batching").steps = function(...)
      local steps, k = make(...), 0
      return over(steps, { next = function()
        local step = steps:next()
        k = k + 1
        if k ~= 2 or os.getenv "RANK" ~= "1" then return step end
        local micros = step:micro_batches()
        micros[1] = otherwise(micros[1])
        return over(step, { micro_batches = function() return micros end })
      end })
    end
    dofile(moonring.system.script_path "train"))");
  const std::string data = Runfile("tests/golden/stages/data");
  for (const std::string kind : {"value", "count"}) {
    ExpectBothEndWith(AllOf(HasSubstr("step 2: " + Others() + "rank 0 has checksum "),
                            HasSubstr(" of examples 4, 5, 6, 7; rank 1 has checksum ")),
                      {"labels.lua", kind, "stage=sft", "dataset=talks"}, {data, data});
  }
}

// With a simulated clock a step takes three seconds on every rank; all ranks except rank 2 wait for
// two of them.
TEST_F(UpdatesTest, ASlowRankIsReported) {
  Write("slow.lua", R"(
    local moonring = require "moonring"
    local steps, waits = 0, os.getenv "RANK" == "2" and 0 or 2
    moonring.system.clock = function() return 3 * steps end
    debug.getregistry()["moonring.classes"].Mesh.__index.waited =
      function() return waits * steps end
    local step = require "moonring.run.step"
    local make = step.make
    function step.make(...)
      steps = steps + 1
      return make(...)
    end
    dofile(moonring.system.script_path "train"))");
  const std::string home = Runfile("tests/golden/stages");
  const CommandResult result =
      Run({"-n", "4", "slow.lua", "model_name_or_path=" + home + "/model",
           "dataset_dir=" + home + "/data", "stage=sft", "dataset=talks", "output_dir=out",
           "finetuning_type=full", "template=chatml", "cutoff_len=64", "sequence_parallel_size=2",
           "max_steps=12", "save_strategy=no", "logging_steps=100"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err, HasSubstr("rank 2 of 4 is slow: 3 s of its own work a step, over 10 "
                                    "steps in a row; the ranks' median is 1 s"));
  for (const char* other : {"rank 0 of 4 is", "rank 1 of 4 is", "rank 3 of 4 is"})
    EXPECT_THAT(result.err, Not(HasSubstr(other)));
}

}  // namespace
}  // namespace moonring::testing
