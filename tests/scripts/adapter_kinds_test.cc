// OFT, PiSSA and LoRA on the head, trained by commands: results do not depend on the number of
// ranks or on ZeRO, a resumed run is bit-identical to an uninterrupted one, and the saved adapter,
// merged or converted, gives the trained model's results. Also with a quantized base, and with
// invalid settings.

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const Words kOft = {"finetuning_type=oft", "oft_block_size=8", "learning_rate=2.0e-2"},
            kPissa = {"finetuning_type=lora", "pissa_init=true", "pissa_iter=-1", "lora_rank=4",
                      "learning_rate=2.0e-3"},
            kHead = {"finetuning_type=lora", "lora_target=q_proj,lm_head", "lora_rank=4",
                     "lora_dropout=0.2", "learning_rate=2.0e-2"},
            kNumbers = {"fp64=true", "sequence_parallel_mode=ulysses"};

class AdapterKindsTest : public Workplace {
 protected:
  AdapterKindsTest() {
    WriteModel("model");
    WriteConfig();
    Write("probe.json", R"({"input_ids": [5, 9, 77, 30, 2, 8], "labels": [5, 9, 77, 30, 2, 8],
                            "positions": [0, 4]})");
  }

  struct Trained {
    std::vector<double> losses, norms;
    StoredTensors adapter;
    std::string bytes;
  };
  Trained Train(int ranks, const std::string& out, const Words& keys) const {
    EXPECT_THAT(
        Run(Words{"-n", std::to_string(ranks), "train", "config.yaml", "output_dir=" + out} + keys),
        Succeeds());
    Trained trained;
    for (const json& line : ReadJsonLines(Path(out + "/trainer_log.jsonl"))) {
      if (!line.contains("loss")) continue;
      trained.losses.push_back(line.at("loss"));
      trained.norms.push_back(line.at("grad_norm"));
    }
    EXPECT_FALSE(trained.losses.empty());
    const std::string file = Path(out + "/adapter_model.safetensors");
    trained.adapter = ReadSafetensors(file);
    trained.bytes = ReadText(file);
    return trained;
  }

  static void ExpectNear(const Trained& got, const Trained& want, double bound) {
    ASSERT_EQ(got.losses.size(), want.losses.size());
    for (size_t i = 0; i < want.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], want.losses[i], bound * want.losses[i]) << i;
      EXPECT_NEAR(got.norms[i], want.norms[i], bound * want.norms[i]) << i;
    }
    ASSERT_EQ(got.adapter.size(), want.adapter.size());
    for (const auto& [name, tensor] : want.adapter) {
      ASSERT_TRUE(got.adapter.contains(name)) << name;
      EXPECT_LT(RelativeDistance(got.adapter.at(name).values, tensor.values), 1e-6) << name;
    }
  }

  double ProbedLoss(const Words& words, const std::string& out) const {
    EXPECT_THAT(Run(Words{"probe", "input=probe.json", "out=" + out} + words), Succeeds());
    return ReadJson(Path(out)).at("loss").get<double>();
  }

  // Compares a run on one rank with runs on two: with the ranks sharing one sequence (sp), and with
  // each taking half of the batch (dp), also with ZeRO.
  void ExpectTheSameOnRanks(const Words& keys) const {
    const Words halves = {"per_device_train_batch_size=1"};
    const Trained one = Train(1, "one", kNumbers + keys);
    EXPECT_NE(one.losses.front(), one.losses.back());
    ExpectNear(Train(2, "sp2", kNumbers + keys + Words{"sequence_parallel_size=2"}), one, 1e-9);
    ExpectNear(Train(2, "dp2", kNumbers + keys + halves + Words{"zero_stage=1"}), one, 1e-9);
    ExpectNear(Train(4, "zero3",
                     kNumbers + keys + halves + Words{"sequence_parallel_size=2", "zero_stage=3"}),
               one, 1e-9);
    ExpectNear(Train(1, "graph", kNumbers + keys + Words{"recompute=none"}), one, 1e-9);
  }

  void ExpectResumesBitByBit(int ranks, Words keys) const {
    keys = keys + Words{"max_steps=4", "save_steps=2"};
    const Trained whole = Train(ranks, "whole", keys);
    std::filesystem::create_directory(Path("half"));
    std::filesystem::copy(Path("whole/checkpoint-2"), Path("half/checkpoint-2"),
                          std::filesystem::copy_options::recursive);
    const Trained half = Train(ranks, "half", keys + Words{"resume_from_checkpoint=true"});
    ASSERT_EQ(whole.losses.size(), 4u);
    EXPECT_EQ(half.losses.back(), whole.losses.back());
    EXPECT_EQ(half.norms.back(), whole.norms.back());
    EXPECT_TRUE(half.bytes == whole.bytes);
  }

  // Checks that the saved adapter gives the same results when a run loads it as when `export`
  // merges it into the model. The keys of `more` are added to both commands.
  void ExpectReadAndMerged(const std::string& out, const Words& more = {}) const {
    const Words adapter = {"model_name_or_path=model", "adapter_name_or_path=" + out};
    const double read = ProbedLoss(adapter + more, "read.json");
    const std::string merged = out + "_merged";
    EXPECT_THAT(
        Run(Words{"export", "infer_dtype=float32", "export_dir=" + merged} + adapter + more),
        Succeeds());
    EXPECT_NEAR(read, ProbedLoss({"model_name_or_path=" + merged}, "merged.json"), 1e-5 * read);
    EXPECT_GT(std::fabs(read - ProbedLoss(Words{"model_name_or_path=model"}, "base.json")), 1e-3);
  }
};

TEST_F(AdapterKindsTest, OftOverRanks) { ExpectTheSameOnRanks(kOft); }

TEST_F(AdapterKindsTest, PissaOverRanks) { ExpectTheSameOnRanks(kPissa); }

TEST_F(AdapterKindsTest, HeadOverRanks) { ExpectTheSameOnRanks(kHead); }

TEST_F(AdapterKindsTest, HeadResumes) { ExpectResumesBitByBit(2, kHead + Words{"zero_stage=3"}); }

// A tied head: its adapter has PEFT's names, a merge unties it, and the embedding stays.
TEST_F(AdapterKindsTest, HeadIsSavedAsItWasTrained) {
  const StoredTensors weights = ReadSafetensors(Path("model/model.safetensors"));
  const bool tied = !weights.contains("lm_head.weight");
  ASSERT_TRUE(tied);
  const Trained trained = Train(1, "out", kHead);
  ASSERT_EQ(trained.adapter.size(), 6u);
  const StoredTensor& a = trained.adapter.at("base_model.model.lm_head.lora_A.weight");
  EXPECT_EQ(a.shape, (std::vector<int64_t>{4, 32}));
  const StoredTensor& b = trained.adapter.at("base_model.model.lm_head.lora_B.weight");
  EXPECT_EQ(b.shape, (std::vector<int64_t>{675, 4}));
  EXPECT_NE(b.values, std::vector<float>(b.values.size(), 0.0F));
  EXPECT_EQ(ReadJson(Path("out/adapter_config.json")).at("target_modules"),
            json({"lm_head", "q_proj"}));
  ExpectReadAndMerged("out");
  const StoredTensors merged = ReadSafetensors(Path("out_merged/model.safetensors"));
  EXPECT_EQ(merged.at("model.embed_tokens.weight").values,
            weights.at("model.embed_tokens.weight").values);
  EXPECT_NE(merged.at("lm_head.weight").values, weights.at("model.embed_tokens.weight").values);
  EXPECT_EQ(ReadJson(Path("out_merged/config.json")).at("tie_word_embeddings"), false);
  // The dropout before the head acts in training.
  const Words alone = {"lora_target=lm_head", "max_steps=2"};
  EXPECT_NE(Train(1, "dropped", kHead + alone).losses,
            Train(1, "kept", kHead + alone + Words{"lora_dropout=0"}).losses);
}

// What objectives, rollouts and copies make of a model with LoRA on its head.
TEST_F(AdapterKindsTest, HeadInScripts) {
  Write("mine.lua", R"lua(
    local moonring = require "moonring"
    local no_grad = moonring.autograd.no_grad
    local attention = moonring.attention.create {
      mesh = moonring.comm.mesh { sp = 1, deadline = 60 } }
    local base = moonring.model.load(moonring.model.open "model", { frozen = true })
    local model = moonring.model.adapt(base, { rank = 4, target = { "v_proj", "lm_head" } })
    local function log_probs(of, documents, targets)
      local ids, positions, own, plan = attention:cut(moonring.comm.sequence {
        documents = documents })
      return no_grad(function()
        return moonring.objectives.log_prob(of:forward(ids, positions, plan), of:head(),
          targets or own)
      end)
    end
    local function apart(a, b) return (a - b):abs():max():item() end
    local text = { { 5, 9, 77, 30, 2, 8 } }
    local before = log_probs(base, text)
    assert(apart(log_probs(model, text), before) == 0)
    assert(not base:head():low_rank())
    local a, b, factor = model:head():low_rank()
    assert(a:name() == "base_model.model.lm_head.lora_A.weight" and factor == 2, factor)
    no_grad(function()
      b:weight():copy_(moonring.ops.sin(moonring.ops.arange(675 * 4):to("fp32")):reshape { 675, 4 })
    end)
    local moved = log_probs(model, text)
    assert(apart(moved, before) > 0.01)
    assert(apart(log_probs(model:base(), text), before) == 0)

    -- the log-probs that a rollout draws by are those of the forward
    local prompts = { { ids = text[1], key = 1 } }
    local answer = model:rollout(prompts, { max_new_tokens = 6, seed = 3 })[1][1]
    local whole = {}
    for _, ids in ipairs { text[1], answer.ids } do
      for _, id in ipairs(ids) do whole[#whole + 1] = id end
    end
    local again = log_probs(model, { whole }):tolist()
    for i, log_prob in ipairs(answer.log_probs) do
      local forward = again[#text[1] - 1 + i]
      assert(math.abs(log_prob - forward) < 1e-5, log_prob .. " " .. forward)
    end

    -- candidates: those of a row come from the same logits
    local candidates = log_probs(model, text, moonring.tensor({ { 9, 1 }, { 77, -1 }, { 30, 30 },
      { 2, -100 }, { -1, 8 }, { -1, -1 } }, "int64"))
    assert(apart(candidates:narrow(0, 0, 4):select(1, 0), moved:narrow(0, 0, 4)) == 0)
    assert(apart(candidates:narrow(0, 4, 1):select(1, 1), moved:narrow(0, 4, 1)) == 0)

    -- second derivatives: composed of the weights in a table
    local named = {}
    for _, parameter in ipairs(model:parameters():list()) do
      named[parameter:name()] = parameter:weight()
    end
    local ids, positions, targets, plan = attention:cut(moonring.comm.sequence { documents = text })
    local composed = no_grad(function()
      return moonring.objectives.log_prob(model:forward(ids, positions, plan, { weights = named }),
        model:head(), targets, { weights = named })
    end)
    assert(apart(composed, moved) < 1e-5)

    -- a copy stays; AdamW with settings of one step moves the model, without a gradient too
    local copy = moonring.model.copy(model)
    local adamw = moonring.trainer.adamw(model:parameters(), { decay_all = true })
    adamw:step(0.5, { beta1 = 0.9, beta2 = 0.95, epsilon = 1e-12, weight_decay = 0.5 })
    assert(apart(b:weight(), copy:parameters():list()[#copy:parameters():list()]:weight() * 0.75)
      < 1e-6)
    assert(apart(log_probs(copy, text), moved) == 0)
    assert(apart(log_probs(model, text), moved) > 0)
    copy:save "copy"
    local read = moonring.model.adapt(base, { path = "copy" })
    assert(apart(log_probs(read, text), moved) == 0)
    local ok, why = pcall(adamw.step, adamw, 0.5, { beta3 = 1 })
    assert(not ok and tostring(why):find("unknown option 'beta3'", 1, true), tostring(why))
    local sgd = moonring.trainer.sgd(model:parameters())
    ok, why = pcall(sgd.step, sgd, 0.5, { beta1 = 0.9 })
    assert(not ok and tostring(why):find("beta1 was given for one step", 1, true), tostring(why))
  )lua");
  EXPECT_THAT(Run({"mine.lua"}), Succeeds());
}

TEST_F(AdapterKindsTest, OftResumes) { ExpectResumesBitByBit(1, kOft); }

TEST_F(AdapterKindsTest, PissaResumes) {
  const Words keys = kPissa + Words{"zero_stage=3", "pissa_iter=2"};
  ExpectResumesBitByBit(2, keys);
  EXPECT_TRUE(ReadText(Path("half/pissa_init.safetensors")) ==
              ReadText(Path("whole/pissa_init.safetensors")));
}

TEST_F(AdapterKindsTest, OftIsSavedAsItWasTrained) {
  const Trained trained = Train(1, "out", kOft + Words{"oft_target=q_proj,down_proj"});
  ASSERT_EQ(trained.adapter.size(), 4u);
  const StoredTensor& down =
      trained.adapter.at("base_model.model.model.layers.1.mlp.down_proj.oft_R.weight");
  EXPECT_EQ(down.shape.at(1), 28);
  const json config = ReadJson(Path("out/adapter_config.json"));
  EXPECT_EQ(config.at("peft_type"), "OFT");
  EXPECT_EQ(config.at("oft_block_size"), 8);
  EXPECT_EQ(config.at("target_modules"), json({"down_proj", "q_proj"}));
  ExpectReadAndMerged("out");
  // Training continues from the saved adapter; with create_new_adapter=true the adapter is merged
  // into the base and a new one is trained.
  const Words on = kOft + Words{"adapter_name_or_path=out", "max_steps=1"};
  const Trained again = Train(1, "again", on);
  EXPECT_FALSE(again.bytes == trained.bytes);
  EXPECT_EQ(again.adapter.size(), 4u);
  const Trained fresh = Train(1, "fresh", on + Words{"create_new_adapter=true"});
  EXPECT_EQ(fresh.adapter.size(), 14u);
  EXPECT_NEAR(fresh.losses[0], again.losses[0], 1e-5 * again.losses[0]);
}

TEST_F(AdapterKindsTest, OftTakesLoraTargetWhereItsOwnSaysNothing) {
  const Trained trained =
      Train(1, "out",
            Words{"finetuning_type=oft", "lora_target=v_proj", "oft_block_size=0", "oft_rank=4"});
  ASSERT_EQ(trained.adapter.size(), 2u);
  EXPECT_EQ(trained.adapter.begin()->second.shape, (std::vector<int64_t>{4, 28}));
}

TEST_F(AdapterKindsTest, OftOverAPackedBase) {
  const Words pack = {"quantization_bit=4"};
  EXPECT_THAT(Run({"export", "model_name_or_path=model", "quantization_bit=4",
                   "infer_dtype=float32", "export_dir=nf4"}),
              Succeeds());
  const Trained packed = Train(1, "packed", kOft + pack),
                apart = Train(1, "apart", kOft + Words{"model_name_or_path=nf4"});
  EXPECT_EQ(packed.losses, apart.losses);
  EXPECT_EQ(packed.norms, apart.norms);
  EXPECT_TRUE(packed.bytes == apart.bytes);
  EXPECT_THAT(Run(Words{"train", "config.yaml"} + kPissa + pack),
              FailsWith(2, HasSubstr("pissa_init: the largest singular values are those of weights "
                                     "before they are packed; leave quantization_bit out")));
}

TEST_F(AdapterKindsTest, OftIsItsOwnReference) {
  Write("data/dataset_info.json",
        R"({"pairs": {"file_name": "pairs.json", "ranking": true, "columns": {"prompt":
            "instruction", "chosen": "chosen", "rejected": "rejected"}}})");
  Write("data/pairs.json", R"([{"instruction": "Q one", "chosen": "yes", "rejected": "no"},
                               {"instruction": "Q two", "chosen": "a", "rejected": "b"}])");
  const Trained dpo =
      Train(1, "dpo", kOft + Words{"stage=dpo", "dataset=pairs", "learning_rate=5.0e-2"});
  EXPECT_NEAR(dpo.losses[0], std::log(2.0), 1e-4);  // nothing has learnt yet
  EXPECT_LT(dpo.losses.back(), dpo.losses[0]);
}

// DPO of an adapter that sft has trained (hiyouga/LlamaFactory#8974). If that adapter continues
// training, the reference is the base without it, and the log states that the loss of step 1 is not
// ln 2 (arXiv 2305.18290, equation 7 with policy = reference). If the adapter is merged into both
// models, the loss is ln 2. The model card of a new adapter names the adapters that are merged into
// its base.
TEST_F(AdapterKindsTest, TheReferenceIsSaid) {
  Write("data/dataset_info.json",
        R"({"t": {"file_name": "t.json"}, "pairs": {"file_name": "pairs.json", "ranking": true,
            "columns": {"prompt": "instruction", "chosen": "chosen", "rejected": "rejected"}}})");
  Write("data/t.json", R"([{"instruction": "Q one", "output": "yes"}])");
  Write("data/pairs.json", R"([{"instruction": "Q one", "chosen": "yes", "rejected": "no"},
                               {"instruction": "Q two", "chosen": "a", "rejected": "b"}])");
  const Words lora = {"finetuning_type=lora", "lora_rank=4"};
  Train(1, "sft", lora + Words{"dataset=t", "learning_rate=5.0e-2", "max_steps=10"});
  const auto first = [&](const std::string& out, const Words& keys, const std::string& said) {
    const CommandResult result =
        Run(Words{"train", "config.yaml", "output_dir=" + out, "stage=dpo", "dataset=pairs",
                  "adapter_name_or_path=sft", "max_steps=1"} +
            lora + keys);
    EXPECT_THAT(result, Succeeds());
    EXPECT_THAT(result.err, HasSubstr(said));
    return ReadJsonLines(Path(out + "/trainer_log.jsonl"))[0].at("loss").get<double>();
  };
  EXPECT_GT(
      std::fabs(first("on", {},
                      "reference: model, without the adapter sft, whose training continues: it "
                      "is not the policy as it begins, so step 1's loss is not ln 2") -
                std::log(2.0)),
      1e-3);
  EXPECT_NEAR(first("new", {"create_new_adapter=true"},
                    "reference: model with sft merged into it, as the policy begins, so that step "
                    "1's loss is ln 2"),
              std::log(2.0), 1e-5);
  EXPECT_NEAR(first("named", {"ref_model=model", "ref_model_adapters=sft"},
                    "reference: model with sft merged into it, as the policy begins"),
              std::log(2.0), 1e-5);
  first("other", {"ref_model=model"},
        "reference: model; the policy begins as model with sft merged into it: step 1's loss is ln "
        "2 only where the two are the same model");
  EXPECT_THAT(
      ReadText(Path("new/README.md")),
      HasSubstr("over model with other adapters merged into it, in this order:\n\n1. `sft`"
                "\n\nThey come first wherever it is used: `adapter_name_or_path: sft,new`"));
  EXPECT_THAT(ReadText(Path("on/README.md")), ::testing::Not(HasSubstr("other adapters")));
}

TEST_F(AdapterKindsTest, PissaIsSavedAsItIsAndConverted) {
  const Trained trained =
      Train(2, "out", kPissa + Words{"pissa_convert=true", "zero_stage=3", "learning_rate=2.0e-2"});
  EXPECT_EQ(ReadJson(Path("out/adapter_config.json")).at("init_lora_weights"), "pissa");
  const json config = ReadJson(Path("out/pissa_converted/adapter_config.json"));
  EXPECT_EQ(config.at("init_lora_weights"), true);
  EXPECT_EQ(config.at("r"), 8);
  EXPECT_EQ(config.at("lora_alpha"), 16);
  ExpectReadAndMerged("out");
  ExpectReadAndMerged("out/pissa_converted");
  const double read =
                   ProbedLoss({"model_name_or_path=model", "adapter_name_or_path=out"}, "a.json"),
               converted = ProbedLoss(
                   {"model_name_or_path=model", "adapter_name_or_path=out/pissa_converted"},
                   "b.json");
  EXPECT_NEAR(read, converted, 1e-5 * read);
  // PiSSA's initial values may also be stored as LLaMA-Factory does it; without any, the adapter
  // cannot be loaded.
  std::filesystem::create_directory(Path("out/pissa_init"));
  std::filesystem::rename(Path("out/pissa_init.safetensors"),
                          Path("out/pissa_init/adapter_model.safetensors"));
  EXPECT_EQ(ProbedLoss({"model_name_or_path=model", "adapter_name_or_path=out"}, "c.json"), read);
  std::filesystem::remove_all(Path("out/pissa_init"));
  EXPECT_THAT(Run({"probe", "model_name_or_path=model", "adapter_name_or_path=out",
                   "input=probe.json", "out=d.json"}),
              FailsWith(2, HasSubstr("neither pissa_init.safetensors nor")));
}

// At step 1 the model computes what the base does, and the adapter holds each matrix's largest
// singular components.
TEST_F(AdapterKindsTest, PissaBeginsAtTheModel) {
  const Trained pissa = Train(1, "pissa", kPissa),
                lora = Train(1, "lora", {"finetuning_type=lora", "lora_rank=4"});
  EXPECT_NEAR(pissa.losses[0], lora.losses[0], 1e-5 * lora.losses[0]);
  EXPECT_GT(pissa.norms[0], lora.norms[0]);
  for (const auto& [name, tensor] : ReadSafetensors(Path("pissa/pissa_init.safetensors")))
    EXPECT_LT(RelativeDistance(pissa.adapter.at(name).values, tensor.values), 0.5) << name;
}

TEST_F(AdapterKindsTest, WhatIsRefused) {
  const auto refused = [&](const Words& keys, const std::string& words) {
    EXPECT_THAT(Run(Words{"train", "config.yaml"} + keys), FailsWith(2, HasSubstr(words)));
  };
  refused({"finetuning_type=oft", "oft_rank=4"},
          "oft_rank: expected it or oft_block_size above 0 and the other one 0, got 4 and 32");
  refused({"finetuning_type=oft", "oft_target=q_pro"},
          "oft_target: no linear module is called 'q_pro', there are q_proj, k_proj");
  refused({"finetuning_type=oft", "oft_rank=32", "oft_block_size=0"},
          "blocks of 1 would be made, which rotate nothing");
  refused({"finetuning_type=lora", "lora_target=q_proj,lm_head", "use_dora=true"},
          "lora_target: lm_head takes plain LoRA alone, got DoRA (use_dora)");
  refused({"finetuning_type=oft", "oft_target=lm_head"}, "lm_head takes plain LoRA alone, got OFT");
  refused({"finetuning_type=oft", "use_dora=true"}, "use_dora is for finetuning_type lora alone");
  refused({"finetuning_type=oft", "pissa_init=true"},
          "pissa_init is for finetuning_type lora alone");
  refused({"finetuning_type=full", "create_new_adapter=true"},
          "create_new_adapter is for finetuning_type lora and oft alone");
  refused({"finetuning_type=oft", "use_galore=true"}, "use_galore: expected finetuning_type full");
  refused(kPissa + Words{"lora_dropout=0.1"}, "lora_dropout: expected 0 with pissa_init");
  refused(kPissa + Words{"pissa_iter=-2"}, "pissa_iter: expected at least -1, got -2");
  refused(kPissa + Words{"lora_rank=17"}, "lora_rank: 17, expected at most 16 with pissa_init");
  refused({"finetuning_type=lora", "pissa_convert=true"},
          "pissa_convert: expected pissa_init beside it");
  refused(kPissa + Words{"pissa_convert=true", "use_dora=true"},
          "pissa_convert: a DoRA adapter is not converted");
}

}  // namespace
}  // namespace moonring::testing
