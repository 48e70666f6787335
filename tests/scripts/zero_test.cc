// ZeRO in commands: the saved weights, and the numbers of every objective, are the same with each
// kind of sharding over ranks.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/scripts/invariance.h"
#include "tests/testing/busy_port.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ZeroTest : public InvarianceTest {
 protected:
  // Runs a command on four ranks of this machine, or as torchrun would on two machines. Returns the
  // output of rank 0.
  CommandResult RunFour(std::vector<std::string> arguments, bool on_two_machines) const {
    if (!on_two_machines) {
      arguments.insert(arguments.begin(), {"-n", "4"});
      return Run(std::move(arguments));
    }
    CommandOptions options = Options(std::move(arguments));
    options.environment.insert({{"WORLD_SIZE", "4"},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", FreePort()},
                                {"LOCAL_WORLD_SIZE", "2"}});
    std::vector<std::unique_ptr<Command>> ranks;
    for (int rank = 0; rank < 4; ++rank) {
      options.environment["RANK"] = std::to_string(rank),
      options.environment["LOCAL_RANK"] = std::to_string(rank % 2);
      ranks.push_back(std::make_unique<Command>(options));
    }
    const CommandResult first = ranks[0]->Wait();
    for (int rank = 1; rank < 4; ++rank) EXPECT_THAT(ranks[rank]->Wait(), Succeeds());
    return first;
  }

  // Trains five steps on four ranks and returns the saved weights.
  StoredTensors Weights(const std::string& out, const json& keys,
                        const std::vector<std::string>& words) {
    json all = {{"model_name_or_path", golden_ + "model"},
                {"dataset_dir", Path("data")},
                {"template", "chatml"},
                {"finetuning_type", "full"},
                {"cutoff_len", 128},
                {"per_device_train_batch_size", 1},
                {"gradient_accumulation_steps", 2},
                {"learning_rate", 1e-4},
                {"max_steps", 5},
                {"logging_steps", 1},
                {"save_strategy", "no"}};
    all.update(keys);
    Write("zero.yaml", all.dump());
    std::filesystem::remove_all(Path(out));
    std::vector<std::string> arguments = {"train", "zero.yaml", "output_dir=" + out};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const bool node = std::count(words.begin(), words.end(), "zero_group=node") > 0,
               sp = std::count(words.begin(), words.end(), "zero_group=sp") > 0;
    const CommandResult result = RunFour(arguments, node);
    EXPECT_THAT(result, Succeeds());
    if (node) {
      EXPECT_THAT(result.err, HasSubstr("sharded over 2 of 4 ranks"));
    }
    if (sp) {
      EXPECT_THAT(result.err, HasSubstr("sharded over " +
                                        std::to_string(all.value("sequence_parallel_size", 1)) +
                                        " of 4 ranks"));
    }
    if (result.exit_code != 0) return {};
    const std::string file = std::filesystem::exists(Path(out + "/adapter_model.safetensors"))
                                 ? "/adapter_model.safetensors"
                                 : "/model.safetensors";
    return ReadSafetensors(Path(out + file));
  }

  // The bound is 1e-6 of each tensor, and for one element 1 % of what five steps of AdamW at 1e-4
  // can change: if its gradient is near 0, rounding may change the direction of its steps.
  // `most_relative` is a larger bound for a tensor that started at 0, which is the sum of a few
  // updates in fp32.
  static void ExpectSame(const StoredTensors& ours, const StoredTensors& plain,
                         double most_relative = 1e-6) {
    ASSERT_FALSE(plain.empty());
    ASSERT_EQ(ours.size(), plain.size());
    double relative = 0, absolute = 0;
    for (const auto& [name, tensor] : plain) {
      ASSERT_EQ(ours.at(name).shape, tensor.shape) << name;
      relative = std::max(relative, RelativeDistance(ours.at(name).values, tensor.values));
      for (size_t i = 0; i < tensor.values.size(); ++i)
        absolute =
            std::max<double>(absolute, std::fabs(ours.at(name).values[i] - tensor.values[i]));
    }
    EXPECT_LE(relative, most_relative);
    EXPECT_LE(absolute, 5e-6);
    std::printf("  relative %.1e, absolute %.1e\n", relative, absolute);
  }
};

// fp32, with stage 3 and two other combinations for each kind of fine-tuning. Because four
// processes per run are slow, every pair of stage, kind and sp that matters is covered, but not
// every triple.
struct Combination {
  const char *stage, *kind;
  int sp;
  std::vector<std::vector<std::string>> ways;
  std::string Name() const { return std::string(stage) + "_" + kind + "_sp" + std::to_string(sp); }
};

std::vector<Combination> Combinations() {
  return {
      {"sft", "full", 1, {{"zero_stage=1"}, {"zero_stage=2", "zero_group=node"}}},
      {"sft",
       "full",
       4,
       {{"zero_stage=1", "zero_group=sp", "offload_optimizer=cpu"},
        {"zero_stage=2", "offload_optimizer=disk"}}},
      {"sft",
       "lora",
       2,
       {{"zero_stage=3", "zero_group=node", "offload_optimizer=disk"}, {"zero_stage=2"}}},
      {"dpo", "full", 2, {{"zero_stage=3", "zero_group=sp"}, {"offload_optimizer=disk"}}},
      {"dpo", "lora", 1, {{"zero_stage=1"}, {"zero_stage=3", "zero_group=node"}}},
      {"dpo", "lora", 4, {{"zero_stage=3", "zero_group=sp"}, {"zero_stage=2", "zero_group=node"}}}};
}

class ZeroWeightsTest : public ZeroTest, public ::testing::WithParamInterface<Combination> {};

TEST_P(ZeroWeightsTest, AreThoseOfStage0) {
  const Combination& what = GetParam();
  const std::string dataset = what.stage == std::string("sft") ? "talks" : "pairs";
  const json keys = {{"stage", what.stage},
                     {"dataset", dataset},
                     {"finetuning_type", what.kind},
                     {"sequence_parallel_size", what.sp}};
  const StoredTensors plain = Weights("plain", keys, {});
  std::vector<std::vector<std::string>> ways = what.ways;
  ways.push_back({"zero_stage=3"});
  for (const std::vector<std::string>& words : ways) {
    std::string shown = what.Name();
    for (const std::string& word : words) shown += " " + word;
    SCOPED_TRACE(shown);
    std::printf("%s\n", shown.c_str());
    ExpectSame(Weights("sharded", keys, words), plain,
               what.kind == std::string("lora") ? 1e-5 : 1e-6);  // B begins at 0
  }
}

INSTANTIATE_TEST_SUITE_P(All, ZeroWeightsTest, ::testing::ValuesIn(Combinations()),
                         [](const auto& info) { return info.param.Name(); });

// In bf16, the stored and gathered weights equal fp32 weights cast to bf16; the saved weights are
// the fp32 masters.
TEST_F(ZeroTest, InBf16) {
  const json keys = {
      {"stage", "sft"}, {"dataset", "talks"}, {"bf16", true}, {"sequence_parallel_size", 2}};
  const StoredTensors plain = Weights("plain", keys, {});
  for (const char* stage : {"zero_stage=1", "zero_stage=2", "zero_stage=3"})
    ExpectSame(Weights(std::string("sharded_") + stage, keys, {stage}), plain);
  ExpectSame(Weights("on_disk", keys, {"zero_stage=3", "offload_optimizer=disk"}), plain);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
    EXPECT_THAT(entry.path().string(), ::testing::Not(HasSubstr("optimizer_state")));
  ExpectSame(
      Weights("from_hosts", keys, {"zero_stage=3", "offload_optimizer=cpu", "offload_weights=cpu"}),
      plain);
  ExpectSame(Weights("whole_on_hosts", keys, {"offload_optimizer=cpu", "offload_weights=cpu"}),
             plain);
}

// Stochastic rounding of a state depends on an element's index in the whole weight, so that
// sharding does not change it: with the index in the shard the weights would differ by 9e-7.
TEST_F(ZeroTest, StatesInBf16) {
  const json keys = {{"stage", "sft"}, {"dataset", "talks"}, {"optimizer_state", "bf16"}};
  const StoredTensors plain = Weights("plain", keys, {});
  for (const char* stage : {"zero_stage=1", "zero_stage=2", "zero_stage=3"})
    ExpectSame(Weights(std::string("sharded_") + stage, keys, {stage}), plain, 3e-7);
}

// A run with all uses of forward: evaluations with uneven last batches, checkpoints and reloading
// the best one, generation, noise; and with DeepSpeed's configuration file.
TEST_F(ZeroTest, OfAWholeRun) {
  Write("ds.json",
        R"({"gradient_clipping": "auto", "zero_optimization": {"stage": 3, )"
        R"("offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}})");
  const json keys = {{"stage", "rm"},
                     {"dataset", "pairs"},
                     {"val_size", 5},
                     {"per_device_eval_batch_size", 2},
                     {"eval_strategy", "steps"},
                     {"eval_steps", 2},
                     {"save_strategy", "steps"},
                     {"save_steps", 2},
                     {"micro_batch_tokens", 200},
                     {"load_best_model_at_end", true},
                     {"sample_prompt", "hello"},
                     {"neftune_noise_alpha", 5}};
  const StoredTensors plain = Weights("plain", keys, {});
  ExpectSame(Weights("sharded", keys, {"deepspeed=ds.json"}), plain);
  ExpectSame(ReadSafetensors(Path("sharded/value_head.safetensors")),
             ReadSafetensors(Path("plain/value_head.safetensors")));
  ExpectSame(ReadSafetensors(Path("sharded/checkpoint-4/model.safetensors")),
             ReadSafetensors(Path("plain/checkpoint-4/model.safetensors")));
  const json ours = ReadJson(Path("sharded/eval_results.json")),
             theirs = ReadJson(Path("plain/eval_results.json"));
  for (const char* name : {"eval_loss", "eval_accuracy"})
    EXPECT_NEAR(ours.at(name).get<double>(), theirs.at(name).get<double>(), 1e-6) << name;
}

// Every objective of the invariance tests, in fp64: losses, metrics, evaluations and gradients
// equal those of one rank. In some steps some ranks have no examples.
TEST_F(ZeroTest, EveryObjectivesNumbers) {
  const std::vector<InvarianceCase> cases = Cases();
  ASSERT_NO_FATAL_FAILURE(MakeReference(cases));
  const auto compare = [&](const Ranks& ranks, int stage, const char* group, bool packed) {
    std::vector<InvarianceRun> plan;
    for (const InvarianceCase& each : cases) {
      plan.push_back(RunOf(each, "zigzag-ring", packed));
      plan.back().entry["keys"]["zero_stage"] = stage;
      plan.back().entry["keys"]["zero_group"] = group;
    }
    SCOPED_TRACE(::testing::Message() << ranks.ranks << " ranks, sp " << ranks.sp << ", stage "
                                      << stage << ", " << group);
    Compare(ranks, plan, 1e-10);
  };
  compare({1, 1}, 3, "world", true);
  compare({4, 1}, 3, "world", false);
  compare({4, 2}, 2, "world", true);
  compare({4, 2}, 3, "sp", false);
  compare({2, 1}, 1, "world", false);
}

}  // namespace
}  // namespace moonring::testing
