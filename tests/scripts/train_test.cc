// `moonring train` on a tiny model: the files that it writes, and that results do not depend on the
// number of ranks.
//
// Losses and gradient norms of fp32 runs differ by the order of sums only: 1e-5 relative over a few
// steps (the required bound; 1e-6 is observed). One step of plain gradient descent at lr 1 reveals
// a constant factor, which AdamW would hide: (w1 - w0) / lr agrees within 2e-5 relative per tensor.

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"
#include "tests/testing/busy_port.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class TrainTest : public Workplace {
 protected:
  TrainTest() { WriteModel("model"); }

  // Trains into `out` and returns the lines of its log, except the last, which only marks the end.
  std::vector<json> Train(const std::string& out, std::vector<std::string> more,
                          std::vector<std::string> options = {}) const {
    std::vector<std::string> words = options;
    words.insert(words.end(), {"train", "config.yaml", "output_dir=" + out});
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_THAT(Run(words), Succeeds());
    std::vector<json> lines = ReadJsonLines(Path(out + "/trainer_log.jsonl"));
    if (!lines.empty()) lines.pop_back();
    return lines;
  }

  // Returns the whole data set, as `moonring preprocess` writes it, packed into one input for
  // `moonring probe`.
  json WholeDataSet() const {
    EXPECT_THAT(Run({"preprocess", "config.yaml", "out=rows.jsonl"}), Succeeds());
    json input = {{"input_ids", json::array()},
                  {"labels", json::array()},
                  {"lengths", json::array()},
                  {"positions", json::array()}};
    for (const json& row : ReadJsonLines(Path("rows.jsonl"))) {
      for (const char* key : {"input_ids", "labels"})
        input[key].insert(input[key].end(), row.at(key).begin(), row.at(key).end());
      input["lengths"].push_back(row.at("input_ids").size());
    }
    return input;
  }
};

double Relative(const json& a, const json& b) {
  return std::fabs(a.get<double>() - b.get<double>()) / std::fabs(b.get<double>());
}

// mfu and mfu_causal differ by half of attention's operations; without attention, the ratio of mfu
// to tokens per second is 6 N over the peak of all devices.
TEST_F(TrainTest, LogsTheShareOfThePeak) {
  WriteConfig("max_steps: 2\npeak_tflops: 0.003");
  double parameters = 0;  // the embedding is the head too
  for (const auto& [name, tensor] : TinyWeights())
    parameters += static_cast<double>(tensor.values.size());
  for (const int ranks : {1, 2}) {
    const std::string out = "out" + std::to_string(ranks);
    const CommandResult result =
        Run({"-n", std::to_string(ranks), "train", "config.yaml",
             "sequence_parallel_size=" + std::to_string(ranks), "output_dir=" + out});
    ASSERT_THAT(result, Succeeds());
    EXPECT_THAT(result.err, ::testing::AllOf(HasSubstr(" tokens/s  mfu "), HasSubstr(" (causal ")));
    const std::vector<json> log = ReadJsonLines(Path(out + "/trainer_log.jsonl"));
    for (int step = 0; step < 2; ++step) {
      const double mfu = log[step].at("mfu"), causal = log[step].at("mfu_causal");
      const double token = (2 * causal - mfu) / log[step].at("tokens_per_second").get<double>();
      EXPECT_GT(mfu, causal);
      EXPECT_NEAR(token * 0.003e12 * ranks / (6 * parameters), 1, 1e-9);
    }
  }
  ASSERT_THAT(Run({"train", "config.yaml", "peak_tflops=null", "output_dir=none"}), Succeeds());
  EXPECT_FALSE(ReadJsonLines(Path("none/trainer_log.jsonl"))[0].contains("mfu"));
}

TEST_F(TrainTest, LeavesEveryFile) {
  WriteConfig("plot_loss: true\nmax_steps: 3");
  const CommandResult result = Run({"train", "config.yaml"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err, ::testing::AllOf(HasSubstr("out/training_loss.png"),
                                           HasSubstr("  peak_memory 0."), HasSubstr(" GiB")));

  const std::vector<json> log = ReadJsonLines(Path("out/trainer_log.jsonl"));
  ASSERT_EQ(log.size(), 4);
  double sum = 0;
  for (int k = 0; k < 3; ++k) {
    const json& line = log[k];
    for (const char* key :
         {"current_steps", "total_steps", "loss", "lr", "epoch", "percentage", "elapsed_time",
          "remaining_time", "grad_norm", "tokens", "tokens_per_second", "peak_memory_bytes"}) {
      EXPECT_TRUE(line.contains(key)) << key << " in " << line;
    }
    EXPECT_EQ(line.at("current_steps"), k + 1);
    EXPECT_TRUE(line.at("peak_memory_bytes").is_number_integer());
    EXPECT_EQ(line.at("total_steps"), 3);
    EXPECT_DOUBLE_EQ(line.at("lr").get<double>(),
                     2e-3 * 0.5 * (1 + std::cos(M_PI * k / 3)));  // what the step used
    const double scaled = line.at("loss").get<double>() * 1e6;
    EXPECT_NE(scaled, std::round(scaled)) << "not in full precision: " << line;
    sum += line.at("loss").get<double>();
  }
  EXPECT_EQ(log[2].at("percentage"), 100.0);
  EXPECT_EQ(log[2].at("epoch"), 1.0);  // 10 examples, 4 a step: the third ends the epoch
  EXPECT_EQ(log[3].at("current_steps"), 3);
  EXPECT_FALSE(log[3].contains("loss"));

  const json state = ReadJson(Path("out/trainer_state.json")),
             results = ReadJson(Path("out/train_results.json"));
  EXPECT_EQ(state.at("global_step"), 3);
  EXPECT_EQ(state.at("max_steps"), 3);
  EXPECT_EQ(state.at("log_history").size(), 4);
  EXPECT_EQ(state.at("log_history")[1].at("loss"), log[1].at("loss"));
  EXPECT_EQ(state.at("log_history")[1].at("learning_rate"), log[1].at("lr"));
  EXPECT_EQ(results, ReadJson(Path("out/all_results.json")));
  EXPECT_NEAR(results.at("train_loss").get<double>(), sum / 3, 1e-12);
  for (const char* key : {"epoch", "total_flos", "train_runtime", "train_samples_per_second",
                          "train_steps_per_second"})
    EXPECT_TRUE(results.contains(key)) << key;

  const std::string plot = ReadText(Path("out/training_loss.png"));
  EXPECT_EQ(plot.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(plot.substr(plot.size() - 8, 4), "IEND");
  EXPECT_EQ(ReadJson(Path("out/data_report.json")).at("examples"), 10);

  json config = ReadJson(Path("model/config.json"));
  config["torch_dtype"] = "float32";
  EXPECT_EQ(ReadJson(Path("out/config.json")), config);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    EXPECT_EQ(ReadText(Path(std::string("out/") + name)),
              ReadText(Path(std::string("model/") + name)))
        << name;
  }
  const StoredTensors before = TinyWeights(),
                      after = ReadSafetensors(Path("out/model.safetensors"));
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [name, tensor] : before) {
    ASSERT_TRUE(after.contains(name)) << name;
    EXPECT_EQ(after.at(name).shape, tensor.shape) << name;
    const double moved = RelativeDistance(after.at(name).values, tensor.values);
    EXPECT_TRUE(moved > 1e-4 && moved < 0.5) << name << " moved by " << moved;
  }
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(Path("out")))
    left.push_back(entry.path().filename());
  EXPECT_THAT(left, ::testing::UnorderedElementsAre(
                        "README.md", "all_results.json", "chat_template.jinja", "checkpoint-3",
                        "config.json", "data_report.json", "generation_config.json",
                        "layouts.jsonl", "model.safetensors", "ranks.jsonl", "report.html",
                        "run_state.json", "terminal.log", "tokenizer.json",
                        "tokenizer_config.json", "train_results.json", "trainer_log.jsonl",
                        "trainer_state.json", "training_args.yaml", "training_loss.png"));
}

struct Split {
  const char* name;
  int ranks, sp;
  const char* mode;
};

// A step has the same four examples however they are distributed: with accumulation over different
// lengths, a last step of the epoch that is short (2 examples), shuffling, and clipping at every
// step.
TEST_F(TrainTest, RanksChangeNothing) {
  WriteConfig("max_grad_norm: 0.3\nmax_steps: 4");
  const std::vector<json> alone = Train("alone", {});
  ASSERT_EQ(alone.size(), 4);
  for (const json& line : alone) EXPECT_GT(line.at("grad_norm").get<double>(), 0.3);
  const Split splits[] = {
      {"sp2_zigzag", 2, 2, "zigzag-ring"}, {"sp2_ring", 2, 2, "ring"},
      {"sp2_ulysses", 2, 2, "ulysses"},    {"sp4_zigzag", 4, 4, "zigzag-ring"},
      {"sp4_ring", 4, 4, "ring"},          {"sp4_ulysses", 4, 4, "ulysses"},
      {"sp4_gather", 4, 4, "all-gather"},  {"sp4_usp", 4, 4, "usp"},
      {"sp4_double", 4, 4, "double-ring"}, {"sp2_llama3", 2, 2, "llama3"},
      {"dp2_sp2_usp", 4, 2, "usp"},        {"sp2_auto", 2, 2, "auto"},
      {"dp2", 2, 1, "zigzag-ring"},        {"dp2_sp2_ulysses", 4, 2, "ulysses"},
      {"dp2_sp2_ring", 4, 2, "ring"},      {"dp2_sp2_zigzag", 4, 2, "zigzag-ring"},
      {"sp3_zigzag", 3, 3, "zigzag-ring"}};
  for (const Split& split : splits) {
    SCOPED_TRACE(split.name);
    const int dp = split.ranks / split.sp;
    const std::vector<json> shared =
        Train(split.name,
              {"sequence_parallel_size=" + std::to_string(split.sp),
               std::string("sequence_parallel_mode=") + split.mode,
               "gradient_accumulation_steps=" + std::to_string(2 / dp)},
              {"-n", std::to_string(split.ranks)});
    ASSERT_EQ(shared.size(), alone.size());
    for (size_t k = 0; k < alone.size(); ++k) {
      EXPECT_LE(Relative(shared[k].at("loss"), alone[k].at("loss")), 1e-5) << "step " << k + 1;
      EXPECT_LE(Relative(shared[k].at("grad_norm"), alone[k].at("grad_norm")), 1e-5)
          << "step " << k + 1;
      EXPECT_EQ(shared[k].at("lr"), alone[k].at("lr"));
      if (dp == 1) {  // it is counted in batches of all dp ranks
        EXPECT_EQ(shared[k].at("epoch"), alone[k].at("epoch"));
      }
    }
  }
  // The number of tokens in one forward does not change the results either.
  const std::vector<json> small =
      Train("small", {"micro_batch_tokens=64", "disable_gradient_checkpointing=true"});
  ASSERT_EQ(small.size(), alone.size());
  for (size_t k = 0; k < alone.size(); ++k)
    EXPECT_LE(Relative(small[k].at("loss"), alone[k].at("loss")), 1e-5);
  // Recomputation in the backward leaves results bit-identical, wherever its inputs are stored.
  for (const std::vector<std::string>& keys :
       std::vector<std::vector<std::string>>{{"recompute=selective"},
                                             {"recompute=auto"},
                                             {"activation_offload=disk"},
                                             {"activation_offload=disk", "recompute=selective",
                                              "activation_dir=" + Path("waiting")}}) {
    const std::vector<json> other = Train("other_" + keys[0] + std::to_string(keys.size()), keys);
    ASSERT_EQ(other.size(), alone.size());
    for (size_t k = 0; k < alone.size(); ++k) {
      EXPECT_EQ(other[k].at("loss"), alone[k].at("loss")) << keys[0];
      EXPECT_EQ(other[k].at("grad_norm"), alone[k].at("grad_norm")) << keys[0];
    }
  }
}

TEST_F(TrainTest, OneStepOfGradientDescentIsTheSame) {
  WriteConfig(
      "optim: sgd\nlearning_rate: 1.0\nlr_scheduler_type: constant\nmax_grad_norm: 0\nmax_steps: "
      "1\ncount: targets\n"
      "per_device_train_batch_size: 10\ngradient_accumulation_steps: 1");
  const StoredTensors before = TinyWeights();
  const auto change = [&](const std::string& out) {
    StoredTensors changed = ReadSafetensors(Path(out + "/model.safetensors"));
    for (auto& [name, tensor] : changed) {
      for (size_t i = 0; i < tensor.values.size(); ++i)
        tensor.values[i] = before.at(name).values[i] - tensor.values[i];
    }
    return changed;
  };
  Train("alone", {});
  const StoredTensors alone = change("alone");
  ASSERT_EQ(alone.size(), before.size());
  const Split splits[] = {
      {"ulysses", 2, 2, "ulysses"},         {"ring", 2, 2, "ring"}, {"zigzag", 4, 4, "zigzag-ring"},
      {"dp", 4, 2, "zigzag-ring"},          {"usp", 4, 4, "usp"},   {"gather", 3, 3, "all-gather"},
      {"double-ring", 4, 4, "double-ring"}, {"auto", 2, 2, "auto"}};
  for (const Split& split : splits) {
    Train(split.name,
          {"sequence_parallel_size=" + std::to_string(split.sp),
           std::string("sequence_parallel_mode=") + split.mode,
           "per_device_train_batch_size=" + std::to_string(10 * split.sp / split.ranks)},
          {"-n", std::to_string(split.ranks)});
    const StoredTensors shared = change(split.name);
    for (const auto& [name, tensor] : alone)
      EXPECT_LE(RelativeDistance(shared.at(name).values, tensor.values), 2e-5)
          << split.name << " " << name;
  }
  // The step's gradient equals the one that probe computes for the whole data set, in fp64.
  Write("in.json", WholeDataSet().dump());
  ASSERT_THAT(Run({"probe", "model_name_or_path=model", "input=in.json", "out=out.json",
                   "grads=grads.safetensors", "fp64=true"}),
              Succeeds());
  const StoredTensors gradients = ReadSafetensors(Path("grads.safetensors"));
  for (const auto& [name, tensor] : alone)
    EXPECT_LE(RelativeDistance(tensor.values, gradients.at(name).values), 2e-5) << name;
}

// The model saved after one step, when probed, has the loss that a run of two steps logs for the
// second.
TEST_F(TrainTest, WhatItWritesIsWhatItTrained) {
  WriteConfig(
      "lr_scheduler_type: constant\ncount: targets\nper_device_train_batch_size: "
      "10\ngradient_accumulation_steps: 1");
  const std::vector<json> both = Train("two", {"max_steps=2"});
  Train("one", {"max_steps=1", "sequence_parallel_size=2"});
  ASSERT_EQ(both.size(), 2);
  Write("in.json", WholeDataSet().dump());
  for (const char* sp : {"sequence_parallel_size=1", "sequence_parallel_size=2"}) {
    ASSERT_THAT(Run({"probe", "model_name_or_path=one", "input=in.json", "out=out.json", sp}),
                Succeeds());
    EXPECT_LE(Relative(ReadJson(Path("out.json")).at("loss"), both[1].at("loss")), 1e-5) << sp;
  }
  EXPECT_LT(both[1].at("loss"), both[0].at("loss"));
}

TEST_F(TrainTest, LogsWhatTheKeysAskFor) {
  WriteConfig("max_steps: 5\nlogging_steps: 2\nlogging_first_step: true\nmax_grad_norm: 0");
  const std::vector<json> sparse = Train("sparse", {}),
                          dense = Train("dense", {"logging_steps=1", "logging_first_step=false"});
  ASSERT_EQ(sparse.size(), 3);
  ASSERT_EQ(dense.size(), 5);
  const int steps[] = {1, 2, 4};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sparse[i].at("current_steps"), steps[i]);
    EXPECT_FALSE(sparse[i].contains("grad_norm"));  // as LLaMA-Factory where nothing is clipped
  }
  const double mean = (dense[2].at("loss").get<double>() + dense[3].at("loss").get<double>()) /
                      2;  // of the steps since the last line
  EXPECT_NEAR(sparse[2].at("loss").get<double>(), mean, 1e-12);
  EXPECT_FALSE(std::filesystem::exists(Path("dense/training_loss.png")));
}

// As in Transformers, the end of the run is recorded, also in its checkpoint, even if the last step
// has no log line.
TEST_F(TrainTest, EndsAtItsLastStepHoweverSeldomItLogs) {
  WriteConfig("max_steps: 5");
  for (const char* steps : {"2", "100"}) {
    const std::string out = std::string("every") + steps;
    const size_t lines = Train(out, {std::string("logging_steps=") + steps}).size();
    EXPECT_EQ(lines, steps == std::string("2") ? 2 : 0);
    const json end = ReadJsonLines(Path(out + "/trainer_log.jsonl")).back(),
               results = ReadJson(Path(out + "/train_results.json"));
    EXPECT_EQ(end.at("current_steps"), 5);
    EXPECT_EQ(end.at("percentage"), 100.0);
    EXPECT_NEAR(end.at("epoch").get<double>(), 1.8,
                1e-12);  // three steps an epoch, of 2, 2 and 1 batches: four of five more
    for (const std::string& folder : {out, out + "/checkpoint-5"}) {
      const json state = ReadJson(Path(folder + "/trainer_state.json"));
      EXPECT_EQ(state.at("global_step"), 5);
      EXPECT_EQ(state.at("epoch"), end.at("epoch"));
      EXPECT_EQ(state.at("log_history").size(), lines + (folder == out ? 1 : 0));
    }
    EXPECT_EQ(ReadJson(Path(out + "/trainer_state.json")).at("log_history").back().at("step"), 5);
    EXPECT_NEAR(results.at("train_steps_per_second").get<double>() *
                    results.at("train_runtime").get<double>(),
                5, 1e-9);
  }
  EXPECT_EQ(ReadJson(Path("every2/train_results.json")).at("train_loss"),
            ReadJson(Path("every100/train_results.json")).at("train_loss"));
}

TEST_F(TrainTest, TrainsInBf16) {
  WriteConfig();
  const std::vector<json> fp32 = Train("fp32", {}), mixed = Train("mixed", {"bf16=true"}),
                          pure = Train("pure", {"pure_bf16=true"});
  ASSERT_TRUE(fp32.size() == 3 && mixed.size() == 3 && pure.size() == 3);
  for (int k = 0; k < 3; ++k) {  // 8 bits of a matmul's inputs, and of the weights themselves
    EXPECT_LE(Relative(mixed[k].at("loss"), fp32[k].at("loss")), 5e-3);
    EXPECT_LE(Relative(pure[k].at("loss"), fp32[k].at("loss")), 2e-2);
  }
  EXPECT_EQ(ReadSafetensors(Path("mixed/model.safetensors")).size(), TinyWeights().size());  // fp32
  EXPECT_THAT(ReadText(Path("pure/model.safetensors")).substr(0, 200), HasSubstr("BF16"));
}

// Ranks started as by torchrun: without Moonring's launcher, with RANK and the other variables in
// the environment.
TEST_F(TrainTest, TakesTorchrunsEnvironment) {
  WriteConfig();
  const std::vector<json> alone = Train("alone", {});
  CommandOptions options =
      Options({"train", "config.yaml", "output_dir=torchrun", "sequence_parallel_size=2"});
  options.environment.insert({{"WORLD_SIZE", "2"},
                              {"MASTER_ADDR", "127.0.0.1"},
                              {"MASTER_PORT", FreePort()},
                              {"LOCAL_WORLD_SIZE", "2"}});
  CommandOptions second = options;
  options.environment["RANK"] = options.environment["LOCAL_RANK"] = "0";
  second.environment["RANK"] = second.environment["LOCAL_RANK"] = "1";
  Command one(options), two(second);
  ASSERT_THAT(one.Wait(), Succeeds());
  ASSERT_THAT(two.Wait(), Succeeds());
  const std::vector<json> shared = ReadJsonLines(Path("torchrun/trainer_log.jsonl"));
  ASSERT_EQ(shared.size(), alone.size() + 1);
  for (size_t k = 0; k < alone.size(); ++k)
    EXPECT_LE(Relative(shared[k].at("loss"), alone[k].at("loss")), 1e-5);
}

}  // namespace
}  // namespace moonring::testing
