// linear_attention_mode in the commands that accept it: results are the same in every mode, and a
// line of output tells where the key has no effect. tests/golden/families has a small Qwen3-Next
// with layers of linear and of softmax attention.

#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kModel = "tests/golden/families/qwen3_next";
constexpr const char* kLinearModes[] = {"auto", "heads", "spans", "relay"};

class LinearAttentionTest : public Workplace {
 protected:
  static std::vector<std::string> Words(std::vector<std::string> words,
                                        const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  CommandResult Probe(const std::vector<std::string>& more) const {
    return Run(Words({"probe", "model_name_or_path=" + Runfile(kModel), "input=in.json",
                      "out=out.json", "fp64=true"},
                     more));
  }

  // Writes two documents that are split over all three ranks.
  void WriteInput() const {
    std::vector<int> ids;
    for (int i = 0; i < 470; ++i) ids.push_back((i * i + 7 * i) % 44 + 3);
    Write("in.json",
          json{{"input_ids", ids}, {"labels", ids}, {"positions", {0, 400}}, {"lengths", {400, 70}}}
              .dump());
  }

  // Writes the model with a tokenizer of more tokens than the model has embedding rows.
  void WriteTrainedModel() const {
    WriteModel("model");
    for (const char* name : {"config.json", "model.safetensors"})
      fs::copy_file(fs::path(Runfile(kModel)) / name, Path("model/" + std::string(name)),
                    fs::copy_options::overwrite_existing);
    WriteConfig("resize_vocab: true\nmax_steps: 2");
  }
};

TEST_F(LinearAttentionTest, EveryModeIsOneRank) {
  WriteInput();
  ASSERT_THAT(Probe({}), Succeeds());
  const json alone = ReadJson(Path("out.json"));
  for (const char* mode : kLinearModes) {
    SCOPED_TRACE(mode);
    const CommandResult result =
        Probe({"sequence_parallel_size=3", std::string("linear_attention_mode=") + mode});
    ASSERT_THAT(result, Succeeds());
    EXPECT_THAT(result.out, Not(HasSubstr("does nothing")));
    const json shared = ReadJson(Path("out.json"));
    EXPECT_NEAR(shared.at("loss"), alone.at("loss"), 1e-12);
    for (const auto& [name, norm] : alone.at("grad_norm").items())
      EXPECT_NEAR(shared.at("grad_norm").at(name), norm, 1e-10 * norm.get<double>()) << name;
  }
}

TEST_F(LinearAttentionTest, SaysWhereItDoesNothing) {
  WriteInput();
  const CommandResult alone = Probe({"linear_attention_mode=relay"});
  ASSERT_THAT(alone, Succeeds());
  EXPECT_THAT(
      alone.out,
      HasSubstr("linear_attention_mode: relay does nothing: sequence_parallel_size is 1\n"));
  const std::string softmax = "model_name_or_path=" + Runfile("tests/golden/model/gqa_tied");
  const CommandResult without =
      Probe({softmax, "sequence_parallel_size=2", "linear_attention_mode=heads"});
  ASSERT_THAT(without, Succeeds());
  EXPECT_THAT(without.out, HasSubstr("linear_attention_mode: heads does nothing: the model has no "
                                     "layers of linear attention\n"));
  const CommandResult not_given = Probe({softmax, "sequence_parallel_size=2"});
  ASSERT_THAT(not_given, Succeeds());
  EXPECT_THAT(not_given.out, Not(HasSubstr("linear_attention_mode")));
}

TEST_F(LinearAttentionTest, AnUnknownMode) {
  EXPECT_THAT(Probe({"linear_attention_mode=rely"}),
              FailsWith(2, AllOf(HasSubstr("linear_attention_mode: expected auto | heads | spans | "
                                           "relay, got 'rely'"),
                                 HasSubstr("(did you mean 'relay'?)"))));
}

TEST_F(LinearAttentionTest, TrainingLogsTheChosenMode) {
  WriteTrainedModel();
  const auto train = [&](const std::vector<std::string>& more) {
    const CommandResult result =
        Run(Words({"train", "config.yaml", "overwrite_output_dir=true"}, more));
    EXPECT_THAT(result, Succeeds());
    return result.out + result.err;
  };
  const auto last = [&] { return ReadJsonLines(Path("out/trainer_log.jsonl")).at(1); };
  train({});
  const json alone = last();
  for (const char* mode : kLinearModes) {
    SCOPED_TRACE(mode);
    const std::string said =
        train({"sequence_parallel_size=2", std::string("linear_attention_mode=") + mode});
    EXPECT_NEAR(last().at("loss"), alone.at("loss"), 1e-5 * alone.at("loss").get<double>());
    if (std::string(mode) == "auto") {
      EXPECT_THAT(said, AllOf(HasSubstr("linear attention: "), HasSubstr("estimate: heads ")));
    } else {
      EXPECT_THAT(said, Not(HasSubstr("linear attention: ")));
    }
  }
  EXPECT_THAT(train({"linear_attention_mode=spans"}), HasSubstr("spans does nothing: "));
}

// `moonring plan` predicts the bytes that a run sends for these layers.
TEST_F(LinearAttentionTest, ThePlansBytesAreTheAccounts) {
  const auto account = [&](const std::string& family, const std::vector<std::string>& more) {
    const CommandResult result =
        Run(Words({"-n", "2", Runfile("tests/scripts/mixing_account.lua"),
                   "model_name_or_path=" + Runfile("tests/golden/families/" + family),
                   "sequence_parallel_size=2", "per_device_train_batch_size=1",
                   "gradient_accumulation_steps=1", "cutoff_len=448", "out=account.json"},
                  more));
    EXPECT_THAT(result, Succeeds());
    return ReadJson(Path("account.json"));
  };
  std::set<double> sent;
  for (const char* layout : {"zigzag-ring", "ulysses"})
    for (const char* mode : kLinearModes) {
      const json found = account("qwen3_next", {std::string("linear_attention_mode=") + mode,
                                                std::string("sequence_parallel_mode=") + layout});
      EXPECT_EQ(found.at("planned"), found.at("sent")) << layout << " " << mode;
      EXPECT_GT(found.at("sent"), 0);
      if (std::string(mode) != "auto") {
        EXPECT_EQ(found.at("mode"), mode);
        sent.insert(found.at("sent").get<double>());
      }
    }
  EXPECT_GE(sent.size(), 4u) << "modes send as much as one another";
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"bf16=true"}, {"recompute=none"}, {"fp64=true"}})
    for (const char* family : {"qwen3_next", "lfm2"}) {
      const json found = account(family, more);
      EXPECT_EQ(found.at("planned"), found.at("sent")) << family << " " << more[0];
    }
}

// A script's own linear-attention layers, which call AttentionPlan:delta and
// AttentionPlan:convolve, give the same results in every mode.
TEST_F(LinearAttentionTest, ScriptsMixByTheSameModes) {
  const std::string script = Runfile("tests/scripts/plan_mixers.lua");
  for (const char* mode : kLinearModes)
    for (const char* sp : {"sp=1", "sp=3"}) {
      SCOPED_TRACE(std::string(mode) + " " + sp);
      const CommandResult result = Run({script, sp, std::string("mode=") + mode});
      ASSERT_THAT(result, Succeeds());
      double by_rule = 1, by_taps = 1;
      ASSERT_EQ(std::sscanf(result.out.c_str(), "%lf %lf", &by_rule, &by_taps), 2) << result.out;
      EXPECT_LE(by_rule, 1e-14);
      EXPECT_LE(by_taps, 1e-14);
    }
  EXPECT_THAT(Run({script, "mode=span"}),
              FailsWith(2, HasSubstr("mixing: expected auto, heads, spans or relay, got 'span'")));
}

TEST_F(LinearAttentionTest, ThePlanNamesTheMode) {
  Write("plan.yaml", "model_name_or_path: " + Runfile(kModel) +
                         "\nstage: sft\nfinetuning_type: full\ncutoff_len: 4096\n");
  const auto plan = [&](const std::vector<std::string>& more) {
    const CommandResult result = Run(Words({"plan", "plan.yaml", "device=cpu"}, more));
    EXPECT_THAT(result, Succeeds());
    return result.out;
  };
  EXPECT_THAT(plan({"sequence_parallel_size=2", "linear_attention_mode=relay"}),
              HasSubstr("\nlinear attention with relay (linear_attention_mode: relay): "));
  EXPECT_THAT(plan({"sequence_parallel_size=2"}), HasSubstr("(linear_attention_mode: auto): "));
  EXPECT_THAT(plan({"linear_attention_mode=relay"}),
              AllOf(HasSubstr("\nlinear_attention_mode: relay does nothing: "),
                    Not(HasSubstr("linear attention with"))));
}

}  // namespace
}  // namespace moonring::testing
