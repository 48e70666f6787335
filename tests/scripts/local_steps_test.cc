// local_steps and its outer_ keys in commands: the numbers equal PyTorch's, and with one local step
// those of ordinary training; a run resumes in the middle of a round (the local steps between two
// synchronizations of the weights); what is saved and sent; and invalid settings.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

using Doubles = std::map<std::string, std::vector<double>>;

// Reads a file whose tensors are all fp64.
Doubles ReadDoubles(const std::string& path) {
  const std::string text = ReadText(path);
  uint64_t length = 0;
  std::memcpy(&length, text.data(), sizeof(length));
  const json header = json::parse(text.substr(8, length));
  Doubles tensors;
  for (const auto& [name, facts] : header.items()) {
    if (name == "__metadata__") continue;
    EXPECT_EQ(facts.at("dtype"), "F64") << name;
    const size_t begin = facts.at("data_offsets")[0], end = facts.at("data_offsets")[1];
    std::vector<double>& values = tensors[name];
    values.resize((end - begin) / sizeof(double));
    std::memcpy(values.data(), text.data() + 8 + length + begin, end - begin);
  }
  return tensors;
}

// Returns ||a - b|| / ||b - from||, the distance relative to how far b has moved.
double DistanceOfWay(const std::vector<double>& a, const std::vector<double>& b,
                     const std::vector<double>& from) {
  double off = 0, way = 0;
  for (size_t i = 0; i < b.size(); ++i)
    off += (a[i] - b[i]) * (a[i] - b[i]), way += (b[i] - from[i]) * (b[i] - from[i]);
  return std::sqrt(off / way);
}

class LocalStepsTest : public ResumedRuns {
 protected:
  std::string Model(const std::string& folder) const {
    return ReadText(Path(folder + "/model.safetensors"));
  }
  Doubles Source() const {
    Doubles source;
    for (const auto& [name, tensor] :
         ReadSafetensors(Runfile("tests/golden/stages/model/model.safetensors")))
      source[name] = std::vector<double>(tensor.values.begin(), tensor.values.end());
    return source;
  }

  // Trains in rounds of two steps, with an example in the second step that is faulty in one group
  // only.
  CommandResult Faulty(const std::string& fault, const std::string& out, const Words& more) const {
    Words command = CommandOf(
        out, Words{"max_steps=4", "local_steps=2", "disable_shuffling=true"} + more, OnRanks(2));
    const auto train = std::find(command.begin(), command.end(), "train");
    *train = Runfile("tests/scripts/faulty_example.lua");
    command.insert(train + 1, {fault, "9"});
    return Run(command);
  }
  void ExpectTheSecondLeftOut(const std::string& out) const {
    const auto at = [&](int step) { return Model(out + "/checkpoint-" + std::to_string(step)); };
    EXPECT_TRUE(at(1) == at(2));  // the round has one step still
    EXPECT_FALSE(at(2) == at(3));
    EXPECT_FALSE(at(3) == at(4));  // the last step ends one
    EXPECT_TRUE(at(4) == Model(out));
  }
};

// tests/golden/local_steps: an epoch whose last step has one example for two groups, and a short
// last round. The numbers are the same with sp, and with states sharded over the sp group.
TEST_F(LocalStepsTest, AreThoseOfPyTorch) {
  const json golden = ReadJson(Runfile("tests/golden/local_steps/golden.json"));
  const Doubles source = Source();
  const Words common = {"fp64=true",
                        "max_samples=" + std::to_string(golden.at("rows").get<int>()),
                        "disable_shuffling=true",
                        "per_device_train_batch_size=2",
                        "gradient_accumulation_steps=1",
                        "lr_scheduler_type=constant",
                        "learning_rate=" + golden.at("lr").dump(),
                        "weight_decay=" + golden.at("decay").dump(),
                        "max_grad_norm=" + golden.at("clip").dump(),
                        "max_steps=" + golden.at("steps").dump(),
                        "local_steps=" + golden.at("local").dump(),
                        "save_strategy=no"};
  const std::vector<std::pair<Words, Words>> ways = {
      {{}, OnRanks(2)},
      {{"sequence_parallel_size=2"}, OnRanks(4)},
      {{"sequence_parallel_size=2", "zero_stage=2", "zero_group=sp", "micro_batch_tokens=170"},
       OnRanks(4)}};
  for (const auto& [name, wanted] : golden.at("cases").items()) {
    Words rule = {"outer_learning_rate=" + wanted.at("a").dump(),
                  "outer_momentum=" + wanted.at("b").dump(),
                  "outer_nesterov=" + wanted.at("nesterov").dump(),
                  "outer_overlap=" + wanted.at("overlap").dump()};
    if (!wanted.at("clip").is_null())
      rule.push_back("outer_momentum_clip=" + wanted.at("clip").dump());
    for (size_t way = 0; way < ways.size(); ++way) {
      const std::string out = name + std::to_string(way);
      SCOPED_TRACE(out);
      ASSERT_THAT(Train(out, common + rule + ways[way].first, ways[way].second), Succeeds());
      const json steps = Steps(out);
      ASSERT_EQ(steps.size(), golden.at("steps").get<size_t>());
      for (size_t k = 0; k < steps.size(); ++k) {
        for (const char* number : {"loss", "grad_norm"}) {
          const double value = wanted.at(number)[k];
          EXPECT_NEAR(steps[k].at(number).get<double>(), value, 1e-9 * value) << number << " " << k;
        }
      }
      const Doubles weights = ReadDoubles(Path(out + "/model.safetensors"));
      ASSERT_EQ(weights.size(), wanted.at("moved").size());
      for (const auto& [tensor, norm] : wanted.at("moved").items()) {
        const std::vector<double>& ours = weights.at(tensor);
        double moved = 0;
        for (size_t i = 0; i < ours.size(); ++i)
          moved += (ours[i] - source.at(tensor)[i]) * (ours[i] - source.at(tensor)[i]);
        EXPECT_NEAR(std::sqrt(moved), norm.get<double>(), 1e-8 * norm.get<double>()) << tensor;
        for (size_t i = 0; i < 8; ++i)
          EXPECT_NEAR(ours[i], wanted.at("first").at(tensor)[i].get<double>(),
                      1e-8 * norm.get<double>())
              << tensor << " " << i;
      }
    }
  }
}

TEST_F(LocalStepsTest, TheDefaultsAreTheOrdinaryRun) {
  ASSERT_THAT(Train("plain", {"max_steps=3"}, OnRanks(2)), Succeeds());
  const CommandResult result =
      Train("same", {"max_steps=3", "local_steps=1", "outer_momentum=0", "outer_learning_rate=1"},
            OnRanks(2));
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err, Not(HasSubstr("sp groups")));
  ExpectSameRun("plain", "same");
  EXPECT_TRUE(std::filesystem::exists(Path("same/checkpoint-3/states-00001-of-00001.safetensors")));
}

// With plain gradient descent and equal counts in all groups, the average after one local step
// equals an ordinary step.
TEST_F(LocalStepsTest, OneStepAveragedIsTheOrdinaryStep) {
  json rows;
  for (const char* said : {"0 1 2 3 4 5", "5 4 3 2 1 0", "2 5 0 4 1 3", "1 3 5 0 2 4"})
    rows.push_back({{"instruction", "Count."}, {"output", said}});
  std::filesystem::create_directories(Path("data"));
  Write("data/rows.json", rows.dump());
  Write("data/dataset_info.json", R"({"rows": {"file_name": "rows.json"}})");
  const Words words = {"dataset_dir=data",
                       "dataset=rows",
                       "fp64=true",
                       "optim=sgd",
                       "max_grad_norm=0",
                       "learning_rate=0.1",
                       "lr_scheduler_type=constant",
                       "max_steps=1",
                       "weight_decay=0",
                       "per_device_train_batch_size=1"};
  ASSERT_THAT(Train("plain", words, OnRanks(2)), Succeeds());
  ASSERT_THAT(Train("local", words + Words{"local_steps=4"}, OnRanks(2)), Succeeds());
  ASSERT_THAT(Train("both", words + Words{"local_steps=4", "sequence_parallel_size=2"}, OnRanks(4)),
              Succeeds());
  const Doubles plain = ReadDoubles(Path("plain/model.safetensors")), source = Source();
  for (const std::string out : {"local", "both"}) {
    SCOPED_TRACE(out);
    for (const auto& [name, values] : ReadDoubles(Path(out + "/model.safetensors")))
      EXPECT_LE(DistanceOfWay(values, plain.at(name), source.at(name)), 1e-12) << name;
    EXPECT_NEAR(Steps(out)[0].at("loss").get<double>(), Steps("plain")[0].at("loss").get<double>(),
                1e-12);
  }
}

TEST_F(LocalStepsTest, ResumeBitForBitWithinARound) {
  ExpectResumes("averaged", {"local_steps=3", "max_steps=7"}, {1, 3, 5}, OnRanks(2));
  ExpectResumes(
      "overlapped",
      {"local_steps=2", "max_steps=7", "outer_momentum=0.5", "outer_overlap=true",
       "per_device_train_batch_size=1", "val_size=6", "eval_strategy=steps", "eval_steps=1"},
      {1, 3, 4, 5}, OnRanks(2));
  ExpectResumes("sharded",
                {"local_steps=3", "max_steps=5", "outer_momentum=0.9", "outer_nesterov=true",
                 "outer_overlap=true", "sequence_parallel_size=2", "zero_stage=2", "zero_group=sp",
                 "bf16=true"},
                {2, 4}, OnRanks(4));
  ExpectResumes("adapter",
                {"local_steps=3", "max_steps=5", "finetuning_type=lora", "lora_dropout=0.1",
                 "pure_bf16=true", "outer_learning_rate=0.8"},
                {2}, OnRanks(2));
}

// A run resumes with the same groups on another number of ranks, with other shards.
TEST_F(LocalStepsTest, ResumeOnOtherRanksOfTheSameGroups) {
  const Words words = {"local_steps=3", "max_steps=5", "outer_momentum=0.5", "outer_overlap=true",
                       "fp64=true"};
  ASSERT_THAT(Train("first", words, OnRanks(2)), Succeeds());
  KeepUpTo("first", 4, "other");
  ASSERT_THAT(Train("other",
                    words + Words{"resume_from_checkpoint=true", "sequence_parallel_size=2",
                                  "zero_stage=3", "zero_group=sp"},
                    OnRanks(4)),
              Succeeds());
  const Doubles first = ReadDoubles(Path("first/model.safetensors")), source = Source();
  for (const auto& [name, values] : ReadDoubles(Path("other/model.safetensors")))
    EXPECT_LE(DistanceOfWay(values, first.at(name), source.at(name)), 1e-9) << name;
  // Resuming with another number of groups or another length of rounds is rejected.
  KeepUpTo("first", 4, "alone");
  EXPECT_THAT(
      Train("alone", words + Words{"resume_from_checkpoint=true", "per_device_train_batch_size=4"}),
      FailsWith(2, HasSubstr("has the states of 2 sp groups that make steps of their own "
                             "(local_steps), expected as many, got 1")));
  EXPECT_THAT(Train("alone",
                    Words{"max_steps=5", "fp64=true", "resume_from_checkpoint=true",
                          "ignore_data_skip=true"},
                    OnRanks(2)),
              FailsWith(2, HasSubstr("has the states of 2 sp groups that make steps of their own "
                                     "(local_steps), expected as many, got none")));
  EXPECT_THAT(
      Train("alone", words + Words{"resume_from_checkpoint=true", "local_steps=2"}, OnRanks(2)),
      FailsWith(2, HasSubstr("local_steps was 3, is 2")));
}

// Evaluations use, and saved models contain, the weights of the last synchronization; a run ends
// with one.
TEST_F(LocalStepsTest, SavesTheSynchronizationPoint) {
  const Words words = {"local_steps=3", "max_steps=7",         "save_steps=1",
                       "val_size=6",    "eval_strategy=steps", "eval_steps=1"};
  const CommandResult result = Train("out", words, OnRanks(2));
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err,
              HasSubstr("local_steps: 3: each of 2 sp groups makes this many local steps "
                        "between synchronizations"));
  const auto at = [&](int step) { return Model("out/checkpoint-" + std::to_string(step)); };
  EXPECT_TRUE(at(1) == at(2));
  EXPECT_FALSE(at(2) == at(3));
  EXPECT_TRUE(at(3) == at(4));
  EXPECT_TRUE(at(3) == at(5));
  EXPECT_FALSE(at(5) == at(6));
  EXPECT_FALSE(at(6) == at(7));
  EXPECT_TRUE(at(7) == Model("out"));
  std::map<int, double> losses;
  for (const json& line : Lines("out")) {
    if (line.contains("eval_loss"))
      losses[line.at("current_steps").get<int>()] = line.at("eval_loss").get<double>();
  }
  EXPECT_EQ(losses.at(3), losses.at(4));
  EXPECT_EQ(losses.at(3), losses.at(5));
  EXPECT_NE(losses.at(2), losses.at(3));
  // Between synchronizations the groups have different weights; at the end of a round they are
  // equal.
  const auto states = [&](int step, int group) {
    return ReadText(Path("out/checkpoint-" + std::to_string(step) +
                         "/states-00001-of-00001-group-0000" + std::to_string(group) +
                         "-of-00002.safetensors"));
  };
  EXPECT_FALSE(states(2, 1) == states(2, 2));
  EXPECT_TRUE(std::filesystem::exists(Path("out/checkpoint-2/outer-00001-of-00001.safetensors")));
}

// k local steps send as many bytes as one reduction of gradients. The plan predicts these bytes,
// and the memory.
TEST_F(LocalStepsTest, SendsOnceARound) {
  const auto told = [&](const std::string& out, const Words& words, int ranks) {
    Words command =
        CommandOf(out, words + Words{"max_steps=8", "save_strategy=no"}, OnRanks(ranks));
    *std::find(command.begin(), command.end(), "train") = Runfile("tests/scripts/local_steps.lua");
    const CommandResult result = Run(command);
    EXPECT_THAT(result, Succeeds());
    const size_t begin = result.out.find("{\"");
    return begin == std::string::npos ? json() : json::parse(result.out.substr(begin));
  };
  const json plain = told("plain", {}, 2), local = told("local", {"local_steps=4"}, 2),
             overlapped = told("overlapped",
                               {"local_steps=4", "outer_momentum=0.5", "outer_overlap=true"}, 2),
             sharded = told("sharded",
                            {"local_steps=4", "sequence_parallel_size=2", "zero_stage=1",
                             "zero_group=sp", "outer_momentum=0.5"},
                            4);
  const double numbers = 4 * 95000;  // of 382 KB of fp32
  EXPECT_EQ(plain.at("sent"), 0);
  // The ordinary run sends the sums of the gradients in each of 8 steps.
  const double sums = 8 * plain.at("states").get<double>();
  EXPECT_GT(sums, 8 * numbers / 2);
  EXPECT_EQ(local.at("sent").get<double>(), sums / 4);
  EXPECT_EQ(local.at("outer").get<double>() * 8, sums / 4);
  EXPECT_EQ(overlapped.at("sent"), local.at("sent"));
  EXPECT_NEAR(sharded.at("sent").get<double>(), sums / 4 / 2, 100);
  EXPECT_NEAR(sharded.at("outer").get<double>() * 8, sums / 4 / 2, 100);
  // These bytes are sent in the sp group and in the world; outer_steps_test.cc checks the gradients
  // that the dp group sends.
  EXPECT_LT(local.at("others").get<double>(), 2 * plain.at("others").get<double>());
  EXPECT_LT(local.at("others").get<double>(), sums / 500);
  // The memory of the three runs: the synchronized weights x; x, their momentum m and the buffer
  // that is sent; half of x and m.
  for (const json& each : {local, overlapped, sharded})
    EXPECT_NEAR(each.at("held").get<double>(), each.at("predicted").get<double>(), 100);
  EXPECT_EQ(overlapped.at("predicted").get<double>(), 3 * local.at("predicted").get<double>());
  EXPECT_EQ(sharded.at("predicted"), local.at("predicted"));
}

// If a loss, or only a gradient, is not finite in one group, all groups skip the step alike, and no
// round counts it.
TEST_F(LocalStepsTest, AFaultOfOneGroupIsOneOfAll) {
  for (const std::string fault : {"loss", "gradient"}) {
    SCOPED_TRACE(fault);
    const CommandResult result = Faulty(fault, fault, {"on_nonfinite=skip"});
    ASSERT_THAT(result, Succeeds());
    EXPECT_THAT(result.err, HasSubstr("the step is skipped"));
    const json steps = Steps(fault);
    ASSERT_EQ(steps.size(), 3u);
    EXPECT_EQ(steps[2].at("skipped_steps"), 1);
    ExpectTheSecondLeftOut(fault);
  }
}

// With fp16, a gradient that is not finite in one group is an overflow: all groups halve the loss
// scale.
TEST_F(LocalStepsTest, AnOverflowOfOneGroupIsOneOfAll) {
  const CommandResult result = Faulty("gradient", "overflow", {"fp16=true"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err, HasSubstr("under a loss scale of 65536; the step is skipped, the scale "
                                    "is 32768"));
  const json last = Steps("overflow").back();
  EXPECT_EQ(last.at("skipped_steps"), 1);
  EXPECT_EQ(last.at("loss_scale"), 32768);
  ExpectTheSecondLeftOut("overflow");
}

// A checkpoint written before these keys existed resumes as one with their default values.
TEST_F(LocalStepsTest, OlderCheckpointsResume) {
  Write("older.lua", R"lua(
    local moonring = require "moonring"
    local changes = require "moonring.run.checkpoint.resume_changes"
    local function told(...)
      local saved = changes.remembered(moonring.config.load(nil, {}))
      for _, name in ipairs { "local_steps", "outer_momentum", "outer_learning_rate",
        "outer_nesterov", "outer_overlap" } do
        assert(saved[name] ~= nil, name)
        saved[name] = nil
      end
      local may, may_not = changes.between(saved, moonring.config.load(nil, { ... }))
      assert(#may == 0)
      return table.concat(may_not, "; ")
    end
    assert(told() == "", told())
    assert(told("local_steps=2", "outer_overlap=true")
      == "local_steps was 1, is 2; outer_overlap was false, is true", told("local_steps=2"))
  )lua");
  EXPECT_THAT(Run({"older.lua"}), Succeeds());
}

TEST_F(LocalStepsTest, RefusesWhatItDoesNotGoWith) {
  const auto refused = [&](const Words& words, const std::string& why) {
    EXPECT_THAT(Train("out", words, OnRanks(2)), FailsWith(2, HasSubstr(why))) << words[0];
  };
  const std::string with = "local_steps: it does not go with ";
  refused({"local_steps=2", "zero_stage=1"},
          with +
              "zero_group: expected sp with zero_stage 1 (each sp group has states of its own), "
              "got world");
  refused({"local_steps=2", "spike_clip=zclip"}, with + "spike_clip");
  refused({"local_steps=2", "optim=schedule_free_adamw"}, with + "optim: schedule_free_adamw");
  refused({"local_steps=2", "use_badam=true"}, with + "badam_mode: layer");
  refused({"local_steps=2", "expert_parallel_size=2"},
          with + "expert_parallel_size: expected 1, got 2");
  refused({"local_steps=2", "stage=kto", "dataset=judged"},
          "local_steps: a loss with a term over the examples of all ranks");
  refused({"local_steps=2", "stage=dpo", "dataset=pairs", "pref_bco_weight=0.5"},
          "local_steps: an objective that surveys the whole step");
  refused({"local_steps=0"}, "local_steps: expected at least 1, got 0");
  refused({"outer_nesterov=true"}, "outer_nesterov: expected an outer_momentum above 0 beside it");
  refused({"outer_momentum=1"}, "outer_momentum: expected less than 1, got 1");
  refused({"outer_learning_rate=0"}, "outer_learning_rate: expected more than 0, got 0");
  refused({"outer_momentum_clip=1"}, "outer_momentum_clip: expected local_steps above 1");
}

}  // namespace
}  // namespace moonring::testing
