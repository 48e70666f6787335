// moonring plan with only a config.json: its numbers equal closed forms; the settings that it
// proposes fit into memory; and a run that would not fit ends before it trains.

#include <cstdio>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr double kGiB = 1024.0 * 1024 * 1024;

// Formats a size as the command does.
std::string Shown(double bytes) {
  char text[32];
  const double gib = bytes / kGiB;
  const bool small = gib < 1;
  const double number = small ? gib * 1024 : gib;
  std::snprintf(text, sizeof text, number < 100 ? "%.1f %s" : "%.0f %s", number,
                small ? "MiB" : "GiB");
  return text;
}

class PlanTest : public Workplace {
 protected:
  // Writes a folder with only a config.json, of Qwen2.5-7B's shape, and a configuration for it.
  void WriteQwen() const {
    const json config = {{"architectures", {"Qwen2ForCausalLM"}},
                         {"model_type", "qwen2"},
                         {"hidden_act", "silu"},
                         {"hidden_size", 3584},
                         {"intermediate_size", 18944},
                         {"num_hidden_layers", 28},
                         {"num_attention_heads", 28},
                         {"num_key_value_heads", 4},
                         {"max_position_embeddings", 131072},
                         {"rms_norm_eps", 1e-6},
                         {"rope_theta", 1000000.0},
                         {"tie_word_embeddings", false},
                         {"vocab_size", 152064}};
    Write("qwen/config.json", config.dump());
    Write("qwen.yaml",
          "model_name_or_path: qwen\nstage: sft\nfinetuning_type: full\nbf16: true\ncutoff_len: "
          "131072\nper_device_train_batch_size: 1\n"
          "gradient_accumulation_steps: 1\nsequence_parallel_size: 8\nsequence_parallel_mode: "
          "ulysses\n");
  }

  // Returns the size in the output's line for one use of memory ("weights", "optimizer", ...), or
  // "none" if there is no such line.
  static std::string Part(const std::string& text, const std::string& part) {
    std::smatch found;
    return std::regex_search(text, found, std::regex("\n  " + part + " +([0-9.]+ [MG]iB)  "))
               ? found[1].str()
               : "none";
  }
};

// The plan prints tokens and operations for pairs with shared prefixes: prompts of half and of
// three quarters of a document.
TEST_F(PlanTest, SaysWhatSharedPrefixesLeave) {
  WriteQwen();
  const Words words = {"plan", "qwen.yaml", "memory=80GiB", "ranks=8", "stage=dpo"};
  const CommandResult without = Run(words);
  ASSERT_THAT(without, Succeeds());
  EXPECT_THAT(without.out, Not(HasSubstr("share_prefixes")));
  Words with = words;
  with.push_back("share_prefixes=true");
  const CommandResult result = Run(with);
  ASSERT_THAT(result, Succeeds());
  const double length = 131072, token = 6 * (7615616512.0 - 152064.0 * 3584),
               pair = 12.0 * 28 * 28 * 128 / 2;  // causal
  const auto percent = [&](double prompt) {
    const double p = prompt - 1, own = length - p;
    double pairs = p * p;
    for (int i = 0; i < 2; ++i) pairs += 2 * p * own + own * own;
    char text[16];
    std::snprintf(text, sizeof text, "%.0f%%",
                  100 * (token * (p + 2 * own) + pair * pairs) /
                      (token * 2 * length + pair * 2 * length * length));
    return std::string(text);
  };
  EXPECT_THAT(
      result.out,
      HasSubstr("\nshare_prefixes: of an example of 2 x 131,072 tokens, 196,609 tokens and " +
                percent(65536) +
                " of the operations remain with a prompt of 65,536, 163,841 tokens and " +
                percent(98304) + " of the operations remain with a prompt of 98,304;"));
  EXPECT_EQ(percent(1), "100%");
}

TEST_F(PlanTest, OfAConfigAlone) {
  WriteQwen();
  const CommandResult result = Run({"plan", "qwen.yaml", "memory=80GiB", "ranks=8"});
  ASSERT_THAT(result, Succeeds());
  const double head = 152064.0 * 3584, block = 3584.0 * (28 + 2 * 4) * 128 + (28 + 2 * 4) * 128 +
                                               28.0 * 128 * 3584 + 3.0 * 3584 * 18944 + 2 * 3584;
  const double parameters = 2 * head + 28 * block + 3584;
  EXPECT_THAT(result.out,
              StartsWith("qwen: 7,615,616,512 parameters, all of them trainable; bf16, recompute: "
                         "block\n8 ranks (cuda) with 80.0 GiB each, sp 8 with ulysses"));
  EXPECT_EQ(parameters, 7615616512.0);
  EXPECT_THAT(result.out,
              HasSubstr("examples of 131,072 tokens, 131,072 in a forward, 16,384 on each rank"));
  EXPECT_THAT(result.out,
              ContainsRegex("as configured [0-9.]+ GiB per rank, with the peak in the first "
                            "block's backward: it does not fit"));
  EXPECT_EQ(Part(result.out, "weights"), Shown(4 * parameters));
  EXPECT_EQ(Part(result.out, "optimizer"), Shown(8 * parameters));
  EXPECT_EQ(Part(result.out, "gradients"),
            Shown(4 * (parameters - head -
                       (28 * block + 3584) / 28)));  // all but the embedding's and this block's
  EXPECT_EQ(Part(result.out, "checkpoints"),
            Shown(131072.0 / 8 * 3584 * 4));  // one block's input, in fp32
  // The model is the path of a config.json, and the memory is smaller.
  const CommandResult file =
      Run({"plan", "qwen.yaml", "memory=80GiB", "ranks=8", "model_name_or_path=qwen/config.json"});
  ASSERT_THAT(file, Succeeds());
  EXPECT_EQ(file.out.substr(file.out.find('\n')), result.out.substr(result.out.find('\n')));
  const CommandResult tiny = Run({"plan", "qwen.yaml", "memory=2GiB", "ranks=8"});
  ASSERT_THAT(tiny, Succeeds());
  EXPECT_THAT(tiny.out,
              AllOf(HasSubstr("none of these fits in 2.0 GiB per rank"), Not(HasSubstr("set:\n"))));
  // With a long sequence the peak is at the end of the forward, when the saved inputs of all
  // recomputed blocks exist.
  const CommandResult longer =
      Run({"plan", "qwen.yaml", "memory=80GiB", "ranks=8", "tokens=1000000"});
  ASSERT_THAT(longer, Succeeds());
  EXPECT_THAT(longer.out, HasSubstr("with the peak in the last block's backward"));
  EXPECT_EQ(Part(longer.out, "checkpoints"), Shown(1000000.0 / 8 * 3584 * 4 * 28));
}

TEST_F(PlanTest, TheTable) {
  WriteQwen();
  const CommandResult result = Run({"plan", "qwen.yaml", "memory=80GiB", "ranks=8", "link=pcie"});
  ASSERT_THAT(result, Succeeds());
  for (const char* sp : {"1", "2", "4", "8"})
    EXPECT_THAT(result.out, ContainsRegex(std::string("\n. +") + sp + " +[a-z-]+ +as configured "))
        << sp;
  EXPECT_THAT(result.out, Not(ContainsRegex("\n. +3 +ulysses")));
  EXPECT_THAT(result.out, AllOf(HasSubstr("zero 3, activations on cpu, optimizer on cpu"),
                                HasSubstr("a step's bytes over pcie and, between machines, ib")));
  EXPECT_THAT(result.out, Not(HasSubstr("all-gather  as configured")));
  const CommandResult all = Run({"plan", "qwen.yaml", "memory=80GiB", "ranks=8", "all=true"});
  ASSERT_THAT(all, Succeeds());
  for (const char* strategy : {"ulysses", "zigzag-ring", "all-gather", "usp"})
    EXPECT_THAT(all.out, ContainsRegex(std::string("\n. +8  ") + strategy + " +as configured"));
  // Without `memory` the plan uses this machine's memory.
  const CommandResult here = Run({"plan", "qwen.yaml", "tokens=1024", "device=cpu"});
  ASSERT_THAT(here, Succeeds());
  EXPECT_THAT(here.out, HasSubstr("8 ranks (cpu) with "));
}

// A run with the keys that the plan proposes fits. With few layers, a second rank saves more than
// any offload.
TEST_F(PlanTest, WhatItProposesFits) {
  WriteModel("model");
  std::filesystem::remove(Path("model/model.safetensors"));
  WriteConfig(
      "cutoff_len: 4000000\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 1");
  const auto plan = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"plan", "config.yaml", "ranks=2", "device=cpu"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = Run(words);
    EXPECT_THAT(result, Succeeds());
    return result.out;
  };
  std::smatch size;
  const std::string two = plan({"memory=1TiB", "sequence_parallel_size=2"});
  ASSERT_TRUE(std::regex_search(
      two, size, std::regex("as configured ([0-9.]+) ([MG])iB per rank, [^\n]*it fits")));
  const std::string memory =
      "memory=" + std::to_string(std::stod(size[1]) * 1.05) + size[2].str() + "iB";
  const std::string proposed = plan({memory});
  EXPECT_THAT(proposed,
              AllOf(HasSubstr("it does not fit"), HasSubstr("the smallest sp that fits: 2, "),
                    HasSubstr("set:\n  sequence_parallel_size: 2\n")));
  EXPECT_THAT(plan({memory, "sequence_parallel_size=2"}),
              AllOf(HasSubstr("it fits"), HasSubstr("nothing to change")));
}

TEST_F(PlanTest, WhatIsWrong) {
  WriteQwen();
  const auto plan = [&](const std::string& word) {
    return Run({"plan", "qwen.yaml", "memory=80GiB", "ranks=8", word});
  };
  EXPECT_THAT(plan("memory=abc"), FailsWith(2, HasSubstr("memory: expected a size such as 80GiB")));
  EXPECT_THAT(plan("link=nvlnk"), FailsWith(2, AllOf(StartsWith("link: expected GB/s or one of "),
                                                     HasSubstr("(did you mean 'nvlink'?)"))));
  EXPECT_THAT(plan("far_link=0"), FailsWith(2, StartsWith("far_link: expected GB/s or one of ")));
  EXPECT_THAT(
      plan("sequence_parallel_size=3"),
      FailsWith(2, HasSubstr("sequence_parallel_size: 3 does not divide the number of ranks, 8")));
  EXPECT_THAT(plan("ranks=0"), FailsWith(2, "ranks: expected at least 1, got 0"));
  EXPECT_THAT(plan("tokens=-5"), FailsWith(2, "tokens: expected at least 1, got -5"));
  EXPECT_THAT(plan("device=gpu"),
              FailsWith(2, HasSubstr("device: expected cpu | cuda, got 'gpu'")));
  EXPECT_THAT(plan("memmory=1GiB"), FailsWith(2, HasSubstr("(did you mean 'memory'?)")));
  EXPECT_THAT(plan("model_name_or_path=nowhere"),
              FailsWith(2, HasSubstr("no folder or file 'nowhere'")));
  EXPECT_THAT(Run({"plan", "qwen.yaml", "memory=80GiB", "sequence_parallel_mode=usp",
                   "sequence_parallel_ulysses_degree=3"}),
              FailsWith(2, HasSubstr("expected a product of 8")));
  EXPECT_THAT(Run({"plan"}), FailsWith(2, StartsWith("usage: moonring plan ")));
  EXPECT_THAT(Run({"plan", "nowhere.yaml"}), FailsWith(2, HasSubstr("nowhere.yaml")));
}

TEST_F(PlanTest, PublishedTables) {
  const CommandResult result = Run({"plan", "tables"});
  ASSERT_THAT(result, Succeeds());
  for (const char* row : {"Qwen2\\.5-7B +8 +8 - +210k", "Qwen2\\.5-72B +32 +16 - +86k",
                          "Llama-3\\.1-8B +8 +8 logits\\+mlp\\+offload +3\\.70M"}) {
    EXPECT_THAT(result.out, ContainsRegex(std::string("\n  ") + row +
                                          " +[0-9.]+[kM] +[0-9.]+ +[0-9.]+[kM] +[0-9.]+ "));
  }
}

// Before training, a run that would not fit is rejected with the prediction, the available memory
// and the settings to change. With other values of the key there is only a warning, or no check.
TEST_F(PlanTest, ARunThatWouldNotFit) {
  WriteModel("model");
  WriteConfig();
  const auto train = [&](std::vector<std::string> before, std::vector<std::string> more) {
    before.insert(before.end(), {"train", "config.yaml"});
    before.insert(before.end(), more.begin(), more.end());
    return Run(before);
  };
  const auto refusal = AllOf(
      HasSubstr("memory: this run is predicted to need "), ContainsRegex("other [0-9.]+ MiB"),
      HasSubstr(" 47.7 MiB are available"), HasSubstr("(memory_check: warn continues anyway)"));
  EXPECT_THAT(train({}, {"memory_limit=50MB"}), FailsWith(2, refusal));
  EXPECT_FALSE(std::filesystem::exists(Path("out/model.safetensors")));
  EXPECT_FALSE(std::filesystem::exists(Path("out/trainer_log.jsonl")));
  EXPECT_THAT(train({"-n", "2"}, {"memory_limit=50MB", "sequence_parallel_size=2"}),
              FailsWith(2, refusal));
  EXPECT_THAT(train({}, {"memory_limit=lots"}),
              FailsWith(2, HasSubstr("memory_limit: expected a size such as 80GiB")));
  EXPECT_THAT(train({}, {"memory_check=maybe"}),
              FailsWith(2, HasSubstr("memory_check: expected refuse | warn | off")));
  const CommandResult warned = train({}, {"memory_limit=50MB", "memory_check=warn", "max_steps=1"});
  ASSERT_THAT(warned, Succeeds());
  EXPECT_THAT(warned.out + warned.err, HasSubstr("memory: this run is predicted to need "));
  const CommandResult off = train(
      {}, {"memory_limit=50MB", "memory_check=off", "max_steps=1", "overwrite_output_dir=true"});
  ASSERT_THAT(off, Succeeds());
  EXPECT_THAT(off.out + off.err, Not(HasSubstr("predicted")));
  const CommandResult fits =
      train({}, {"memory_limit=1GB", "max_steps=1", "overwrite_output_dir=true"});
  ASSERT_THAT(fits, Succeeds());
  EXPECT_THAT(fits.out + fits.err, Not(HasSubstr("predicted")));
}

// The settings that a rejection proposes do fit; forty documents of a few dozen tokens are in one
// forward.
TEST_F(PlanTest, ARefusalSaysWhatFits) {
  WriteModel("model");
  std::string rows;
  for (int i = 0; i < 40; ++i) {
    std::string answer;
    for (int word = 0; word < 1500; ++word) answer += " moon";
    rows += json{{"instruction", "Go on"}, {"input", ""}, {"output", answer}}.dump() + "\n";
  }
  WriteConfig(
      "cutoff_len: 2000\nper_device_train_batch_size: 40\ngradient_accumulation_steps: "
      "1\nmax_steps: 1");
  Write("data/rows.jsonl", rows);
  const CommandResult refused = Run({"train", "config.yaml", "memory_limit=210MB"});
  EXPECT_THAT(
      refused,
      FailsWith(2, ContainsRegex("what is predicted to fit: micro_batch_tokens: [0-9]+[;, (]")));
  std::smatch found;
  ASSERT_TRUE(std::regex_search(refused.err, found, std::regex("micro_batch_tokens: ([0-9]+)")));
  const CommandResult taken =
      Run({"train", "config.yaml", "memory_limit=210MB", "micro_batch_tokens=" + found[1].str()});
  ASSERT_THAT(taken, Succeeds());
  // auto_find_batch_size selects a smaller value automatically.
  const CommandResult halved = Run({"train", "config.yaml", "memory_limit=210MB",
                                    "auto_find_batch_size=true", "output_dir=halved"});
  ASSERT_THAT(halved, Succeeds());
  std::smatch value;
  ASSERT_TRUE(std::regex_search(
      halved.err, value,
      std::regex("auto_find_batch_size: micro_batch_tokens: 80000 is predicted not to fit; "
                 "([0-9]+) is used")));
  EXPECT_LE(std::stoi(value[1]), 40000);
  ASSERT_THAT(Run({"train", "config.yaml", "memory_limit=210MB", "output_dir=given",
                   "micro_batch_tokens=" + value[1].str()}),
              Succeeds());
  EXPECT_EQ(ReadText(Path("halved/model.safetensors")), ReadText(Path("given/model.safetensors")));
  EXPECT_THAT(Run({"train", "config.yaml", "memory_limit=50MB", "auto_find_batch_size=true",
                   "output_dir=none"}),
              FailsWith(2, HasSubstr("memory: this run is predicted to need ")));
}

}  // namespace
}  // namespace moonring::testing
