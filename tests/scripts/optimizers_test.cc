// For every optimizer that `optim` or another key selects: a resumed run is bit-identical to an
// uninterrupted one, the plan predicts the bytes of its state, and the documentation names it. Also
// the errors of optim_args. tests/trainer/rules tests the computations.

#include <sstream>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class OptimizersTest : public ResumedRuns {
 protected:
  // Returns one argument for each optimizer: "optim=lion_32bit", "use_muon=true", ...
  Words All() const {
    Write("all.lua", R"lua(
      for _, row in ipairs(require("moonring.choices.optimizer_rows").rows) do
        print(row.name and "optim=" .. row.name or row.key .. "=true")
      end
    )lua");
    const CommandResult result = Run({"all.lua"});
    EXPECT_THAT(result, Succeeds());
    Words all;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) all.push_back(line);
    return all;
  }
};

TEST_F(OptimizersTest, ResumeBitForBitAndKeepTheBytesOfThePlan) {
  const Words all = All();
  ASSERT_GE(all.size(), 10u);
  for (const std::string& word : all) {
    const std::string name = word.substr(word.find('=') + 1) + word.substr(0, word.find('='));
    // Without recompute the peak is in the backward; with it the optimizer's temporary memory would
    // count.
    Words words = {word, "max_steps=3", "memory_report=true", "recompute=none"};
    if (word == "use_badam=true") words.push_back("badam_switch_interval=2");
    ExpectResumes(name, words, {1});
    const json report = ReadJson(Path(name + "/memory_report.json"));
    const double kept = report.at("worst").at("parts").at("optimizer"),
                 planned = report.at("plan").at("optimizer");
    // 8-bit states are not used for weights of fewer than 4,096 elements, as most of this model's
    // are.
    if (name.find("8bit") == std::string::npos) {
      EXPECT_NEAR(kept, planned, 5e-3 * kept + 1) << name;
    }
  }
}

// BAdam trains one block of layers at a time: blocks that have not had their turn are unchanged. A
// run resumes in the middle and at the end of a turn, with any order of blocks and any optimizer.
TEST_F(OptimizersTest, BlocksAreTrainedInTurns) {
  const Words words = {"use_badam=true", "badam_switch_interval=3", "max_steps=6"};
  ExpectResumes("ascending", words, {1, 2, 3, 5});
  const StoredTensors before =
      ReadSafetensors(Runfile("tests/golden/stages/model/model.safetensors"));
  const auto changed = [&](int step, const std::string& name) {
    return ReadSafetensors(
               Path("ascending/checkpoint-" + std::to_string(step) + "/model.safetensors"))
               .at(name)
               .values != before.at(name).values;
  };
  const std::string first = "model.layers.0.mlp.up_proj.weight",
                    second = "model.layers.1.mlp.up_proj.weight";
  for (const char* still : {"model.embed_tokens.weight", "model.norm.weight"})
    EXPECT_FALSE(changed(6, still)) << still;
  EXPECT_TRUE(changed(2, first));
  EXPECT_FALSE(changed(2, second)) << "the first turn has two steps";
  EXPECT_TRUE(changed(3, second));
  for (const Words& more :
       {Words{"badam_switch_mode=descending", "zero_stage=2", "optim=lion_32bit"},
        Words{"badam_switch_mode=random", "bf16=true", "zero_stage=3"},
        Words{"badam_switch_mode=fixed", "badam_start_block=1", "optim=sgd"},
        Words{"finetuning_type=lora", "zero_stage=1"}}) {
    ExpectResumes("turns_" + more.front(), words + more, {2, 4}, {"-n", "2"});
  }
  ExpectResumes("ratio",
                {"use_badam=true", "badam_mode=ratio", "badam_update_ratio=0.2",
                 "badam_mask_mode=scatter", "weight_decay=0", "max_steps=3", "zero_stage=2"},
                {1}, {"-n", "2"});
  const auto refuses = [&](const Words& words, const std::string& message) {
    EXPECT_THAT(Train("refused", Words{"use_badam=true"} + words),
                FailsWith(2, HasSubstr(message)));
  };
  refuses({"badam_switch_mode=fixed"},
          "badam_switch_mode: fixed: expected badam_start_block beside it");
  refuses({"badam_switch_mode=random", "badam_start_block=0"},
          "badam_start_block: badam_switch_mode: random draws every block");
  refuses({"badam_mode=ratio"},
          "weight_decay: badam_mode: ratio decays no weight, expected 0, got 0.1");
  refuses({"badam_start_block=99"}, "blocks, got 99");
}

TEST_F(OptimizersTest, TheDocsNameEach) {
  const std::string docs = ReadText(Runfile("docs/optimizers.md"));
  for (const std::string& word : All()) {
    const std::string name = word.starts_with("optim=") ? word.substr(6) : word;
    EXPECT_THAT(docs, HasSubstr("`" + name.substr(0, name.find('=')) + "`"));
  }
}

TEST_F(OptimizersTest, OptimArgs) {
  const auto refuses = [&](const Words& words, const std::string& message) {
    EXPECT_THAT(Train("refused", words), FailsWith(2, HasSubstr(message)));
  };
  refuses({"optim=sgd_momentum", "optim_args=momentum"},
          "optim_args: expected name=value, got 'momentum'");
  refuses({"optim=sgd_momentum", "optim_args=momentun=0.8"},
          "optim_args: optim: sgd_momentum has no 'momentun' (did you mean 'momentum'?); known: "
          "dampening, momentum, nesterov");
  refuses({"optim=sgd_momentum", "optim_args=momentum=much"},
          "optim_args: momentum: expected a number, got 'much'");
  refuses({"optim=sgd_momentum", "optim_args=nesterov=1"},
          "optim_args: nesterov: expected a boolean, got '1'");
  refuses({"optim=ademamix", "optim_args=t_alpha=1.5"},
          "optim_args: t_alpha: expected an integer, got '1.5'");
  refuses({"optim=lion_32bit", "optim_args=beta1=0.9"},
          "optim_args: optim: lion_32bit takes none, got 'beta1'");
  refuses({"optim=lion_32bit", "offload_optimizer=disk"},
          "offload_optimizer: disk: of the optimizers AdamW alone has its state there, not "
          "lion_32bit; cpu puts it into the host's memory");
  refuses({"optim=lion_32bit", "optimizer_state=bf16"},
          "optimizer_state: bf16 is for AdamW, not for optim: lion_32bit");
  refuses({"optim=grass", "optim_args=sampling=both"},
          "sampling: expected top or multinomial, got 'both'");
  refuses({"optim=grass", "optim_args=rank=0"}, "trainer.grass: rank is 0, expected more than 0");
  refuses({"optim=swan", "optim_args=ns_beta=1"},
          "trainer.swan: ns_beta is 1, expected more than 0");
  refuses({"optim=spam", "optim_args=density=2"},
          "trainer.spam: density is 2, expected more than 0");
  // Options that are given are used.
  ASSERT_THAT(Train("a", {"optim=sgd_momentum", "max_steps=2"}), Succeeds());
  ASSERT_THAT(
      Train("b", {"optim=sgd_momentum", "optim_args=momentum=0.9, nesterov=False", "max_steps=2"}),
      Succeeds());
  ASSERT_THAT(Train("c", {"optim=sgd_momentum", "optim_args=momentum=0.5", "max_steps=2"}),
              Succeeds());
  EXPECT_EQ(ReadText(Path("a/model.safetensors")), ReadText(Path("b/model.safetensors")));
  EXPECT_NE(ReadText(Path("a/model.safetensors")), ReadText(Path("c/model.safetensors")));
  EXPECT_THAT(ReadText(Path("c/README.md")),
              HasSubstr("- optimizer: sgd_momentum with momentum=0.5"));
}

TEST_F(OptimizersTest, KeysThatAreOptimizersByThemselves) {
  const auto refuses = [&](const Words& words, const std::string& message) {
    EXPECT_THAT(Train("refused", words), FailsWith(2, HasSubstr(message)));
  };
  refuses({"use_muon=true", "optim=sgd"},
          "use_muon: expected optim: adamw_torch beside it, got sgd");
  refuses({"use_galore=true", "use_apollo=true"}, "use_galore: it goes without use_apollo");
  refuses({"use_apollo=true", "finetuning_type=lora"},
          "use_apollo: expected finetuning_type full or freeze, got lora");
  refuses({"use_galore=true", "galore_proj_type=both"}, "galore_proj_type");
  // Given values are used.
  const auto model = [&](const std::string& out, const Words& words) {
    EXPECT_THAT(Train(out, words + Words{"max_steps=2", "save_strategy=no"}), Succeeds());
    return ReadText(Path(out + "/model.safetensors"));
  };
  const std::string galore = model("galore", {"use_galore=true"});
  EXPECT_NE(galore, model("rank", {"use_galore=true", "galore_rank=2"}));
  EXPECT_NE(galore, model("side", {"use_galore=true", "galore_proj_type=right", "galore_rank=2"}));
  EXPECT_NE(galore, model("target", {"use_galore=true", "galore_target=q_proj"}));
  EXPECT_EQ(galore, model("all", {"use_galore=true", "galore_target=all", "galore_rank=16"}));
  const std::string apollo = model("apollo", {"use_apollo=true"});
  EXPECT_NE(apollo, model("seed", {"use_apollo=true", "seed=7", "data_seed=42"}));
  EXPECT_NE(apollo, model("svd", {"use_apollo=true", "apollo_proj=svd"}));
  EXPECT_THAT(ReadText(Path("apollo/README.md")), HasSubstr("- optimizer: APOLLO of rank 16"));
  EXPECT_NE(model("muon", {"use_muon=true"}), model("torch", {"optim=muon"}));
  EXPECT_EQ(model("nesterov", {"optim=muon", "optim_args=nesterov=false"}),
            model("scaled", {"optim=muon", "optim_args=nesterov=false,adjust_lr_fn=original"}));
  ExpectResumes("adapter", {"use_muon=true", "finetuning_type=lora", "max_steps=3"}, {1});
}

// Optimizers that draw random numbers, or store part of their state in a special form.
TEST_F(OptimizersTest, FormsResumeBitForBit) {
  const auto goes_on = [&](const std::string& name, const Words& words) {
    ExpectResumes(name, words + Words{"max_steps=5", "zero_stage=2"}, {2, 3}, {"-n", "2"});
  };
  goes_on("density", {"optim=spam", "optim_args=density=0.3, reset=3, warmup=2"});
  goes_on("multinomial",
          {"optim=grass", "optim_args=sampling=multinomial, update_proj_gap=2, rank=4"});
  goes_on("top", {"optim=grass", "optim_args=update_proj_gap=2, rank=4"});
  goes_on("swan", {"optim=swan"});
  const auto kept = [&](const std::string& name, const Words& words) {
    EXPECT_THAT(Train(name, words + Words{"max_steps=2", "memory_report=true", "recompute=none",
                                          "save_strategy=no"}),
                Succeeds());
    const json report = ReadJson(Path(name + "/memory_report.json"));
    const double bytes = report.at("worst").at("parts").at("optimizer"),
                 planned = report.at("plan").at("optimizer");
    EXPECT_NEAR(bytes, planned, 5e-3 * bytes + 1) << name;
    return bytes;
  };
  const double all = kept("all", {"optim=spam"});
  EXPECT_LT(kept("part", {"optim=spam", "optim_args=density=0.25"}), 0.75 * all);
  // The allocator's rounding of sizes varies from run to run, in one case by 12 bytes of 758,516.
  EXPECT_NEAR(kept("whole", {"optim=spam", "optim_args=density=1"}), all, 1e-3 * all);
}

// Every stage on several ranks gives the results of one rank, in fp64, where no sum of gradients is
// so close to 0 that Lion's sign could change.
TEST_F(OptimizersTest, AreTheSameOnAnyRanks) {
  int number = 0;
  for (const Words& optimizer :
       {Words{"lion_32bit"}, Words{"rmsprop"}, Words{"adafactor"}, Words{"swan"},
        Words{"grass", "optim_args=rank=4, update_proj_gap=2"},
        Words{"grass", "optim_args=rank=4, update_proj_gap=2, sampling=multinomial"},
        Words{"spam", "optim_args=density=0.3, reset=2, warmup=2"}}) {
    Words words = {"optim=" + optimizer.front(), "max_steps=3", "save_strategy=no", "fp64=true",
                   "learning_rate=1e-4"};
    if (optimizer.size() > 1) words.push_back(optimizer.back());
    const std::string name = optimizer.front() + std::to_string(number++);
    ASSERT_THAT(Train(name, words), Succeeds());
    const json wanted = Steps(name);
    for (const Words& shape :
         {Words{"sequence_parallel_size=2"}, Words{"sequence_parallel_size=2", "zero_stage=1"},
          Words{"sequence_parallel_size=2", "zero_stage=3"},
          Words{"per_device_train_batch_size=1", "zero_stage=2"}}) {
      const std::string out = name + shape.front() + shape.back();
      ASSERT_THAT(Train(out, words + shape, {"-n", "2"}), Succeeds());
      const json steps = Steps(out);
      ASSERT_EQ(steps.size(), wanted.size());
      for (size_t i = 0; i < wanted.size(); ++i) {
        const double loss = wanted[i].at("loss");
        EXPECT_NEAR(steps[i].at("loss").get<double>(), loss, 1e-9 * loss) << out << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace moonring::testing
