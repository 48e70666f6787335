// expert_parallel_size through the commands: a mixture of experts whose experts are distributed
// over ranks gives the same losses and gradients (command `probe`), training, saved models and
// resumed runs as one with all experts on each rank. Also invalid settings.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// The relative bound in fp64, for a loss and for a gradient norm before clipping.
constexpr double kSame = 1e-10;
// The bound for weights, which are compared as fp32.
constexpr double kSameWeights = 1e-6;

Words Size(int ranks) { return {"expert_parallel_size=" + std::to_string(ranks)}; }
class ExpertParallelTest : public ResumedRuns {
 protected:
  // Returns the keys for a Qwen2-MoE of 2 layers with 6 experts, of which 2 are used per token, and
  // a shared one.
  static Words Mixture() {
    return {"model_name_or_path=" + Runfile("tests/golden/stages/model_moe"),
            "per_device_train_batch_size=1", "learning_rate=1e-4", "max_grad_norm=0.5"};
  }

  StoredTensors Weights(const std::string& out) const {
    const std::string adapter = Path(out + "/adapter_model.safetensors");
    return ReadSafetensors(std::filesystem::exists(adapter) ? adapter
                                                            : Path(out + "/model.safetensors"));
  }

  // Compares two runs: the losses and gradient norms of the steps, the weights at the end, and the
  // evaluation if there is one.
  void ExpectSameTraining(const std::string& ours, const std::string& plain, double same,
                          double same_weights) const {
    SCOPED_TRACE(ours);
    const json steps = Steps(ours), wanted = Steps(plain);
    ASSERT_EQ(steps.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      for (const char* number : {"loss", "grad_norm"}) {
        const double value = wanted[i].at(number);
        EXPECT_NEAR(steps[i].at(number).get<double>(), value, same * value) << number << " " << i;
      }
    }
    const StoredTensors weights = Weights(ours), theirs = Weights(plain);
    ASSERT_EQ(weights.size(), theirs.size());
    for (const auto& [name, tensor] : theirs) {
      ASSERT_EQ(weights.at(name).shape, tensor.shape) << name;
      // The gradient of a key bias is almost 0, so Adam's step follows the rounding of bf16.
      const bool rounding = same_weights > kSameWeights && name.ends_with("k_proj.bias");
      const double bound = rounding ? 10 * same_weights : same_weights;
      EXPECT_LE(RelativeDistance(weights.at(name).values, tensor.values), bound) << name;
    }
    if (!std::filesystem::exists(Path(plain + "/eval_results.json"))) return;
    const json evaluation = ReadJson(Path(ours + "/eval_results.json")),
               of_plain = ReadJson(Path(plain + "/eval_results.json"));
    EXPECT_NEAR(evaluation.at("eval_loss").get<double>(), of_plain.at("eval_loss").get<double>(),
                same * of_plain.at("eval_loss").get<double>());
  }

  // Compares a run on four ranks with all experts on each rank with the same run under each of
  // `ways`.
  void ExpectSameInEachWay(const std::string& name, const Words& words,
                           const std::vector<Words>& ways, double same = kSame,
                           double same_weights = kSameWeights) const {
    SCOPED_TRACE(name);
    ASSERT_THAT(Train(name, Mixture() + words, OnRanks(4)), Succeeds());
    for (size_t i = 0; i < ways.size(); ++i) {
      const std::string out = name + "_" + std::to_string(i);
      const CommandResult result = Train(out, Mixture() + words + ways[i], OnRanks(4));
      ASSERT_THAT(result, Succeeds());
      EXPECT_THAT(result.err, HasSubstr("of each layer's 6 experts"));
      ExpectSameTraining(out, name, same, same_weights);
    }
  }
};

// With sp 2 there are half as many dp ranks.
const Words kBySp = {"sequence_parallel_size=2", "per_device_train_batch_size=2"};

TEST_F(ExpertParallelTest, TrainsAsWithAllExpertsOnEachRank) {
  ExpectSameInEachWay("full", {"fp64=true", "max_steps=3"},
                      {Size(2), Size(4) + Words{"zero_stage=1", "recompute=none"},
                       Size(4) + Words{"zero_stage=2"} + kBySp,
                       Size(2) + Words{"zero_stage=3", "zero_group=sp"} + kBySp});
  ExpectSameInEachWay(
      "freeze", {"fp64=true", "max_steps=2", "finetuning_type=freeze", "freeze_trainable_layers=1"},
      {Size(4)});
  ExpectSameInEachWay("lora",
                      {"fp64=true", "max_steps=2", "finetuning_type=lora",
                       "lora_target=q_proj,v_proj", "lora_dropout=0.1"},
                      {Size(2) + Words{"zero_stage=3"}, Size(4) + kBySp});
}

// A run that also has everything else that calls forward: evaluations with uneven last batches,
// reloading the best checkpoint, generation, the router's balance loss, noise.
TEST_F(ExpertParallelTest, AWholeRun) {
  ExpectSameInEachWay("whole",
                      {"fp64=true", "max_steps=4", "val_size=5", "per_device_eval_batch_size=2",
                       "eval_strategy=steps", "eval_steps=2", "save_steps=2",
                       "micro_batch_tokens=200", "load_best_model_at_end=true",
                       "sample_prompt=hello", "neftune_noise_alpha=5", "moe_aux_loss_coef=0.01"},
                      {Size(2), Size(4) + Words{"zero_stage=2"}});
}

TEST_F(ExpertParallelTest, Preferences) {
  ExpectSameInEachWay("dpo", {"fp64=true", "stage=dpo", "dataset=pairs", "max_steps=2"},
                      {Size(2), Size(4) + kBySp, Size(2) + Words{"precompute_ref_log_probs=true"}});
  ExpectSameInEachWay("kto", {"fp64=true", "stage=kto", "dataset=judged", "max_steps=2"},
                      {Size(4)});
}

// In bf16 the rounding of a product depends on the rows of other ranks in the same product, and
// each result has eight bits; a loss is the mean of some hundred such results.
TEST_F(ExpertParallelTest, Bf16) {
  ExpectSameInEachWay("bf16", {"bf16=true", "max_steps=2", "learning_rate=1e-5"},
                      {Size(2), Size(4) + Words{"zero_stage=2"}}, 5e-3, 1e-3);
}

// The saved model contains the experts of all ranks, bit-identical to their source.
TEST_F(ExpertParallelTest, SavesAllExperts) {
  const StoredTensors source =
      ReadSafetensors(Runfile("tests/golden/stages/model_moe/model.safetensors"));
  for (const int size : {2, 4}) {
    const std::string out = "still" + std::to_string(size);
    ASSERT_THAT(
        Train(out, Mixture() + Size(size) + Words{"learning_rate=0", "max_steps=1"}, OnRanks(4)),
        Succeeds());
    for (const std::string& folder : {out, out + "/checkpoint-1"}) {
      const StoredTensors saved = Weights(folder);
      ASSERT_EQ(saved.size(), source.size());
      for (const auto& [name, tensor] : source)
        EXPECT_EQ(saved.at(name).values, tensor.values) << folder << " " << name;
    }
  }
}

TEST_F(ExpertParallelTest, ResumesBitForBit) {
  ExpectResumes("size2", Mixture() + Size(2) + Words{"max_steps=3"}, {1, 2}, OnRanks(2));
  ExpectResumes("zero2",
                Mixture() + Size(2) +
                    Words{"max_steps=3", "zero_stage=2", "bf16=true", "optimizer_state=bf16"},
                {2}, OnRanks(4));
  ExpectResumes("codes", Mixture() + Size(4) + Words{"max_steps=3", "optimizer_state=8bit"}, {2},
                OnRanks(4));
}

// Optimizer states are saved in the format of runs without expert parallelism, so a run can resume
// with another expert_parallel_size.
TEST_F(ExpertParallelTest, ResumesWithAnotherSize) {
  const Words words = Mixture() + Words{"fp64=true", "max_steps=3"};
  ASSERT_THAT(Train("two", words + Size(2), OnRanks(4)), Succeeds());
  const std::vector<Words> ways = {Size(4), Size(1), Size(2) + Words{"zero_stage=2"},
                                   Size(1) + Words{"zero_stage=3"}};
  for (size_t i = 0; i < ways.size(); ++i) {
    const std::string out = "other" + std::to_string(i);
    KeepUpTo("two", 1, out);
    ASSERT_THAT(Train(out, words + ways[i] + Words{"resume_from_checkpoint=true"}, OnRanks(4)),
                Succeeds());
    ExpectSameTraining(out, "two", kSame, kSameWeights);
  }
  KeepUpTo("other3", 2, "back");  // from a checkpoint of a run without expert parallelism
  ASSERT_THAT(Train("back", words + Size(4) + Words{"resume_from_checkpoint=true"}, OnRanks(4)),
              Succeeds());
  ExpectSameTraining("back", "two", kSame, kSameWeights);
}

// Models whose experts are separate tensors, and whose experts are stacked in two tensors; also
// more ranks than experts.
TEST_F(ExpertParallelTest, ProbeGivesTheSameGradients) {
  json input;
  for (int i = 0; i < 61; ++i) {
    input["input_ids"].push_back((7 * i + i * i) % 41);
    input["labels"].push_back((5 * i + 3) % 41);
  }
  input["positions"] = {3, 40};
  input["lengths"] = {20, 41};
  Write("in.json", input.dump());
  const auto probe = [&](const std::string& family, const std::string& out, int ranks,
                         const Words& words) {
    const Words command = OnRanks(ranks) +
                          Words{"probe",
                                "model_name_or_path=" + Runfile("tests/golden/families/" + family),
                                "input=in.json",
                                "out=" + out + ".json",
                                "grads=" + out + ".safetensors",
                                "fp64=true",
                                "moe_aux_loss_coef=0.1"} +
                          words;
    ASSERT_THAT(Run(command), Succeeds());
  };
  struct Way {
    int ranks, sp, size;
  };
  const std::vector<Way> ways = {{2, 1, 2}, {2, 2, 2}, {4, 2, 2}, {4, 4, 2}, {4, 2, 4}, {4, 4, 4}};
  for (const std::string family : {"qwen3_moe", "gpt_oss_mxfp4"}) {
    SCOPED_TRACE(family);
    probe(family, "one", 1, {});
    const json wanted = ReadJson(Path("one.json"));
    const StoredTensors gradients = ReadSafetensors(Path("one.safetensors"));
    for (const auto& [ranks, sp, size] : ways) {
      SCOPED_TRACE(::testing::Message() << ranks << " ranks, sp " << sp << ", size " << size);
      probe(family, "some", ranks,
            Size(size) + Words{"sequence_parallel_size=" + std::to_string(sp)});
      const json found = ReadJson(Path("some.json"));
      for (const char* name : {"loss", "grad_norm_total"}) {
        const double value = wanted.at(name);
        EXPECT_NEAR(found.at(name).get<double>(), value, kSame * value) << name;
      }
      ASSERT_EQ(found.at("grad_norm").size(), wanted.at("grad_norm").size());
      for (const auto& [name, norm] : wanted.at("grad_norm").items())
        EXPECT_NEAR(found.at("grad_norm").at(name).get<double>(), norm.get<double>(),
                    kSame * wanted.at("grad_norm_total").get<double>())
            << name;
      const StoredTensors some = ReadSafetensors(Path("some.safetensors"));
      ASSERT_EQ(some.size(), gradients.size());
      for (const auto& [name, gradient] : gradients) {
        ASSERT_EQ(some.at(name).shape, gradient.shape) << name;
        for (size_t i = 0; i < gradient.values.size(); ++i)
          EXPECT_NEAR(some.at(name).values[i], gradient.values[i], 1e-7) << name << " " << i;
      }
    }
  }
}

// The plan predicts the bytes that the ranks send and allocate. Every token goes to every expert,
// so that the load is balanced.
TEST_F(ExpertParallelTest, ThePlanHasWhatIsSentAndHeld) {
  std::filesystem::copy(Runfile("tests/golden/stages/model_moe"), Path("even"),
                        std::filesystem::copy_options::recursive);
  json config = ReadJson(Path("even/config.json"));
  config["num_experts_per_tok"] = config["num_experts"];
  std::filesystem::remove(Path("even/config.json"));
  Write("even/config.json", config.dump());
  const std::vector<std::pair<int, Words>> ways = {
      {2, Size(1)},
      {2, Size(2)},
      {4, Size(4) + Words{"sequence_parallel_size=2", "recompute=none"}},
      {4, Size(2) + Words{"zero_stage=2", "bf16=true"}},
      {4, Size(2) + Words{"zero_stage=3", "sequence_parallel_size=4", "recompute=selective"}},
      {4, Size(2) + Words{"finetuning_type=lora", "lora_target=q_proj"}}};
  for (const auto& [ranks, words] : ways) {
    SCOPED_TRACE(::testing::PrintToString(words));
    const CommandResult result = Run(OnRanks(ranks) +
                                     Words{Runfile("tests/scripts/expert_account.lua"),
                                           "model_name_or_path=even", "finetuning_type=full"} +
                                     words);
    EXPECT_THAT(result, Succeeds());
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(ExpertParallelTest, RefusesInvalidInput) {
  const auto refuses = [&](const Words& words, const std::string& message,
                           const Words& ranks = OnRanks(2)) {
    const CommandResult result = Train("refused", Mixture() + words, ranks);
    EXPECT_THAT(result, FailsWith(2, HasSubstr(message)));
  };
  refuses(Size(2), "expert_parallel_size: expected a divisor of the 3 ranks, got 2", OnRanks(3));
  refuses(Size(0), "expert_parallel_size: expected at least 1, got 0");
  refuses(Size(2) + Words{"model_name_or_path=" + Runfile("tests/golden/stages/model")},
          "which has no experts, got 2");
  refuses(Size(2) + Words{"offload_optimizer=cpu"},
          "expert_parallel_size: expected 1 with offload_optimizer, got 2");
  refuses(Size(2) + Words{"offload_optimizer=cpu", "offload_weights=cpu"},
          "expert_parallel_size: expected 1 with offload_optimizer, got 2");
  refuses(Size(2) + Words{"finetuning_type=lora"},
          "experts of several ranks take no adapter, expected a lora_target without theirs, got "
          "model.layers.0.mlp.experts.0.");
  Write("own.lua", "return { step = function(p, gradient, state, lr) end }");
  refuses(Size(2) + Words{"optim=own.lua"},
          "expert_parallel_size: expected 1 with an optimizer in Lua (own.lua), got 2");
}

// Without -n, the launcher starts the fewest ranks that both sizes divide.
TEST_F(ExpertParallelTest, StartsItsRanks) {
  const CommandResult result =
      Train("started", Mixture() + Size(2) + Words{"max_steps=1", "save_strategy=no"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.err, HasSubstr(" on 2 ranks (dp 2 x sp 1)\n"));
}

}  // namespace
}  // namespace moonring::testing
