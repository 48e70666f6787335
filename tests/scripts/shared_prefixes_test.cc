// share_prefixes: the gradients of documents that share a common prefix equal those of documents
// that repeat it, in fp64 to 1e-10. shared_prefixes.lua compares them for small models with every
// kind of layer, with every strategy, on 1, 2 and 4 ranks. Also the key in `moonring train`, and
// invalid uses.

#include <cmath>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

class SharedPrefixesTest : public Workplace {
 protected:
  // Compares the gradients of every model with and without sharing, with each of these strategies.
  void Compare(const Words& models, int ranks, int sp, const Words& strategies,
               const Words& mixings = {"auto"}) const {
    Words folders;
    for (const std::string& model : models)
      folders.push_back(Runfile("tests/golden/families/" + model));
    const CommandResult result = Run(
        {"-n", std::to_string(ranks), Runfile("tests/scripts/shared_prefixes.lua"),
         absl::StrCat("sp=", sp), "models=" + absl::StrJoin(folders, ","),
         "strategies=" + absl::StrJoin(strategies, ","), "mixings=" + absl::StrJoin(mixings, ",")});
    ASSERT_THAT(result, Succeeds());
    const std::regex line(R"((\S+): worst (\S+) total (\S+) (.*))");
    size_t count = 0;
    for (std::sregex_iterator found(result.out.begin(), result.out.end(), line), end; found != end;
         ++found, ++count) {
      EXPECT_EQ((*found)[1], models[count]);
      EXPECT_LT(std::stod((*found)[2]), 1e-10) << (*found)[0];
      EXPECT_GT(std::fabs(std::stod((*found)[3])), 0) << (*found)[0];
    }
    EXPECT_EQ(count, models.size()) << result.out;
  }
};

const Words kPrefixModes = {"ulysses",    "ring", "zigzag-ring", "double-ring",
                            "all-gather", "usp",  "auto"};

// Grouped heads; windows and softcaps; sinks; latent attention; experts.
const Words kSoftmax = {"llama_bias", "gemma3", "gpt_oss", "deepseek_v3", "qwen3_moe"};
// The delta rule per head and per channel, with gates before and after; a state-space model; only a
// convolution.
const Words kHybrids = {"qwen3_next", "kimi_linear", "granite_hybrid", "lfm2", "olmo_hybrid"};

TEST_F(SharedPrefixesTest, OnOneRank) {
  Compare(kSoftmax, 1, 1, {"dense"});
  Compare(kHybrids, 1, 1, {"dense"});
}

TEST_F(SharedPrefixesTest, OnTwoRanks) { Compare({"llama_bias", "gemma3"}, 2, 2, kPrefixModes); }

TEST_F(SharedPrefixesTest, ExpertsOnTwoRanks) {
  Compare({"gpt_oss", "deepseek_v3", "qwen3_moe"}, 2, 2, {"zigzag-ring", "all-gather"});
}

TEST_F(SharedPrefixesTest, OnFourRanks) { Compare({"llama_bias", "gemma3"}, 4, 4, kPrefixModes); }

// Two groups of ranks process the step's groups of documents in turn.
TEST_F(SharedPrefixesTest, OnTwoGroupsOfTwoRanks) {
  Compare({"gemma3", "qwen3_next"}, 4, 2, {"zigzag-ring", "ulysses"}, {"auto", "spans"});
}

TEST_F(SharedPrefixesTest, HybridsOnTwoRanks) {
  Compare({"qwen3_next"}, 2, 2, {"zigzag-ring", "ring", "ulysses"}, {"heads", "spans", "relay"});
  Compare({"kimi_linear", "granite_hybrid", "lfm2", "olmo_hybrid"}, 2, 2, {"zigzag-ring"},
          {"heads", "spans", "relay"});
}

TEST_F(SharedPrefixesTest, HybridsOnFourRanks) {
  Compare({"qwen3_next", "granite_hybrid"}, 4, 4, {"zigzag-ring", "usp"},
          {"auto", "heads", "spans", "relay"});
}

// --- the key ------------------------------------------------------------------------------------

class SharePrefixesKeyTest : public Workplace {
 protected:
  SharePrefixesKeyTest() {
    WriteModel("model");
    json rows = json::array();
    for (int i = 0; i < 8; ++i) {
      std::string prompt = "one two three";
      for (int j = 0; j < 10 + 5 * i; ++j) prompt += j % 3 == i % 3 ? " four" : " five six";
      rows.push_back({{"conversations", {{{"from", "human"}, {"value", prompt}}}},
                      {"chosen", {{"from", "gpt"}, {"value", "seven eight nine"}}},
                      {"rejected", {{"from", "gpt"}, {"value", i % 2 ? "seven ten" : "nine"}}}});
    }
    fs::create_directories(Path("data"));
    Write("data/pairs.json", rows.dump());
    Write(
        "data/dataset_info.json",
        json{{"pairs",
              {{"file_name", "pairs.json"},
               {"ranking", true},
               {"formatting", "sharegpt"},
               {"columns",
                {{"messages", "conversations"}, {"chosen", "chosen"}, {"rejected", "rejected"}}}}}}
            .dump());
  }

  CommandResult Train(const Words& more) const {
    Words words = {"train",
                   "model_name_or_path=model",
                   "dataset=pairs",
                   "dataset_dir=data",
                   "template=chatml",
                   "stage=dpo",
                   "finetuning_type=full",
                   "cutoff_len=512",
                   "max_steps=3",
                   "per_device_train_batch_size=4",
                   "logging_steps=1",
                   "learning_rate=1e-3",
                   "report_to=none",
                   "save_strategy=no",
                   "overwrite_output_dir=true",
                   "output_dir=out",
                   "fp64=true",
                   "use_cpu=true"};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  }

  // Returns the losses, norms and metrics of all steps.
  std::vector<json> Log() const {
    std::vector<json> lines;
    for (json& line : ReadJsonLines(Path("out/trainer_log.jsonl"))) {
      for (const char* timed : {"elapsed_time", "elapsed_seconds", "remaining_time"})
        line.erase(timed);
      lines.push_back(std::move(line));
    }
    return lines;
  }

  void ExpectSame(const std::vector<json>& lines, const std::vector<json>& want) const {
    ASSERT_EQ(lines.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      for (const char* key :
           {"loss", "grad_norm", "eval_loss", "rewards/margins", "logps/chosen"}) {
        if (!want[i].contains(key)) continue;
        const double number = want[i].at(key);
        EXPECT_NEAR(lines[i].at(key).get<double>(), number, 2e-4 * std::fabs(number) + 2e-6)
            << i << " " << key;
      }
    }
  }
};

TEST_F(SharePrefixesKeyTest, TrainsAsWithoutIt) {
  for (const Words& stage : std::vector<Words>{
           {"stage=dpo", "val_size=0.25", "eval_strategy=steps", "eval_steps=1"},
           {"stage=dpo", "pref_loss=simpo", "ld_alpha=0.4"},
           {"stage=dpo", "pref_bco_weight=0.5", "precompute_ref_log_probs=true"},
           {"stage=dpo", "finetuning_type=lora", "lora_dropout=0.1", "streaming=true"},
           {"stage=rm"}}) {
    SCOPED_TRACE(absl::StrJoin(stage, " "));
    ASSERT_THAT(Train(stage), Succeeds());
    const std::vector<json> apart = Log();
    EXPECT_GE(apart.size(), 3);
    for (const Words& how :
         std::vector<Words>{{}, {"sequence_parallel_size=2"}, {"micro_batch_tokens=100"}}) {
      SCOPED_TRACE(absl::StrJoin(how, " "));
      Words words = stage;
      words.insert(words.end(), how.begin(), how.end());
      words.push_back("share_prefixes=true");
      words.push_back("overwrite_cache=true");
      ASSERT_THAT(Train(words), Succeeds());
      ExpectSame(Log(), apart);
    }
  }
}

// In a run's steps and evaluations, each prefix occurs only once.
TEST_F(SharePrefixesKeyTest, ReachesTheSteps) {
  Write("mine.lua", R"lua(
    local moonring = require "moonring"
    local run = moonring.run.open(moonring.config.command(arg))
    local function look(what, micro)
      local sequence, own = micro:sequence(), 0
      for _, count in ipairs(micro:document_counts()) do own = own + count end
      print(what, #sequence:lengths(), own, sequence:parents() ~= nil)
    end
    for step in run:steps() do look("step", step:micro_batches()[1]) end
    run.engine.batch = function(self, micro, slot)
      look("evaluation", micro)
      return getmetatable(self).batch(self, micro, slot)
    end
    run:evaluate()
  )lua");
  for (const bool share : {true, false}) {
    const CommandResult result =
        Run({"mine.lua", "model_name_or_path=model", "dataset=pairs", "dataset_dir=data",
             "template=chatml", "stage=rm", "finetuning_type=full", "cutoff_len=512", "max_steps=1",
             "per_device_train_batch_size=2", "val_size=2", "eval_strategy=steps", "report_to=none",
             "output_dir=out", "overwrite_output_dir=true",
             share ? "share_prefixes=true" : "share_prefixes=false"});
    ASSERT_THAT(result, Succeeds());
    for (const std::string what : {"step", "evaluation"}) {
      EXPECT_THAT(result.out, HasSubstr(what + (share ? "\t6\t4\ttrue\n" : "\t4\t4\tfalse\n")));
    }
  }
}

// Scripts that make their own batches get an error if these cannot share prefixes.
TEST_F(SharePrefixesKeyTest, BatchesRefuseInvalidInput) {
  Write("mine.lua", R"lua(
    local moonring = require "moonring"
    local mesh = moonring.comm.mesh {}
    local attention = moonring.attention.create { mesh = mesh }
    local function refused(words, f, ...)
      local done, text = pcall(f, ...)
      assert(not done and tostring(text):find(words, 1, true), done and
        "nothing was refused; expected: " .. words or text)
    end
    local examples = {}
    for i = 1, 2 do
      examples[i] = { ids = { 5, 6, 7, i }, labels = { -100, -100, -100, i }, family = 1 }
    end
    local step = moonring.data.step { examples = examples, micro_batch_tokens = 99,
      share_prefixes = true }
    local function batch()
      return require("moonring.run.batch").new(step:micro_batches()[1], attention, mesh)
    end
    refused("mask: INVALID_ARGUMENT: the batch has shared prefixes (share_prefixes), which make "
      .. "its mask", function() return batch():mask({ window = 2 }).plan end)
    refused("neftune_alpha: INVALID_ARGUMENT: not with shared prefixes", batch().noise, batch(),
      { seed = 1, step = 1, neftune_alpha = 5 })
    refused("router: INVALID_ARGUMENT: not with shared prefixes", batch().groups, batch(), 1)
    refused("by_stream: INVALID_ARGUMENT: 3 numbers for 2 documents", batch().of_tokens, batch(),
      { 1, 2, 3 })
    assert(table.concat(batch():of_tokens({ 8, 9 }):tolist(), " ") == "0 0 8 8 9 9")
    assert(table.concat(batch():document_targets():tolist(), " ") == "1 1")
    local shifted = batch()
    shifted.shifted = true
    refused("shifted attention takes no shared prefixes", function() return shifted.plan end)

    -- A mask's parents reach softmax attention alone.
    local model = moonring.model.load(moonring.model.open(arg[1]))
    local sequence = moonring.comm.sequence { documents = { { 5, 6 }, { 7, 8 } } }
    local function forward(mask)
      local ids, positions, _, plan = attention:cut(sequence, moonring.masks.of({ 2, 2 }, mask))
      return model:forward(ids, positions, plan)
    end
    assert(forward { window = 3 })
    refused("UNIMPLEMENTED: mask: parents: this model's layers that are not softmax attention",
      forward, { parents = { [2] = { document = 1, length = 2 } } })
    -- States inside a document are not kept.
    local inside = moonring.comm.sequence { documents = { { 5, 6, 9 }, { 7, 8 } },
      labels = { { -100, -100, -100 }, { 7, 8 } },
      parents = { [2] = { document = 1, length = 2 } } }
    local ids, positions, _, plan = attention:cut(inside)
    refused("document 1 continues from token 2 of its parent, document 0, expected its end",
      model.forward, model, ids, positions, plan)
    print "all refused"
  )lua");
  const CommandResult result = Run({"mine.lua", Runfile("tests/golden/families/qwen3_next")});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.out, HasSubstr("all refused"));
}

TEST_F(SharePrefixesKeyTest, RefusesInvalidInput) {
  const auto refused = [&](Words words, const std::string& message) {
    words.push_back("share_prefixes=true");
    EXPECT_THAT(Train(words), FailsWith(2, HasSubstr(message)));
  };
  refused({"stage=sft"}, "share_prefixes: an example of stage sft is one document");
  refused({"stage=kto"}, "share_prefixes: an example of stage kto is one document");
  refused({"neftune_noise_alpha=5"}, "share_prefixes: with neftune_noise_alpha a token");
  refused({"stage=rm", "finetuning_type=lora", "lora_dropout=0.1"},
          "share_prefixes: with lora_dropout a token");
  refused({"shift_attn=true"}, "shift_attn");
  refused({"rope_scaling=dynamic", "cutoff_len=4096"},
          "share_prefixes: the rotary embedding of this LlamaForCausalLM depends");
}

}  // namespace
}  // namespace moonring::testing
