// `moonring export`, compared with merged weights that are computed here; and adapters in scripts.

#include <string>
#include <utility>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kScale = 3.0;  // lora_alpha 6 / r 2

// Returns a tensor of multiples of `step`, all exact in fp32.
StoredTensor Counted(std::vector<int64_t> shape, double step) {
  StoredTensor tensor{.shape = std::move(shape)};
  int64_t numel = 1;
  for (const int64_t size : tensor.shape) numel *= size;
  for (int64_t i = 0; i < numel; ++i)
    tensor.values.push_back(static_cast<float>(step * ((i * 37) % 23 - 11)));
  return tensor;
}

class ExportTest : public Workplace {
 protected:
  ExportTest() { WriteModel("model"); }

  // Writes an adapter with rank 2 for q_proj of both layers and, with `head`, a trained copy of the
  // whole head.
  StoredTensors WriteAdapter(const std::string& name, bool head, const json& changed = {}) const {
    StoredTensors tensors;
    for (const char* layer : {"0", "1"}) {
      const std::string module =
          std::string("base_model.model.model.layers.") + layer + ".self_attn.q_proj.";
      tensors[module + "lora_A.weight"] = Counted({2, 32}, 0.01);
      tensors[module + "lora_B.weight"] = Counted({32, 2}, 0.015625);
    }
    if (head)
      tensors["base_model.model.lm_head.weight"] =
          Counted(TinyWeights().at("model.embed_tokens.weight").shape, 0.005);
    json config = {{"peft_type", "LORA"},
                   {"r", 2},
                   {"lora_alpha", 6},
                   {"target_modules", {"q_proj"}},
                   {"modules_to_save", nullptr}};
    if (head) config["modules_to_save"] = {"lm_head"};
    if (!changed.is_null()) config.update(changed);
    Write(name + "/adapter_config.json", config.dump());
    Write(name + "/adapter_model.safetensors",
          SafetensorsFile(SafetensorsHeader(tensors), tensors));
    return tensors;
  }

  // Returns W + s B A, with the adapter added `times` times.
  static std::vector<float> Merged(const StoredTensor& weight, const StoredTensors& adapter,
                                   const std::string& layer, int times = 1) {
    const std::string module = "base_model.model.model.layers." + layer + ".self_attn.q_proj.";
    const StoredTensor &a = adapter.at(module + "lora_A.weight"),
                       &b = adapter.at(module + "lora_B.weight");
    std::vector<float> merged;
    for (int64_t o = 0; o < 32; ++o) {
      for (int64_t i = 0; i < 32; ++i) {
        double sum = 0;
        for (int64_t r = 0; r < 2; ++r)
          sum += static_cast<double>(b.values[o * 2 + r]) * a.values[r * 32 + i];
        merged.push_back(static_cast<float>(weight.values[o * 32 + i] + times * kScale * sum));
      }
    }
    return merged;
  }
};

TEST_F(ExportTest, MergesAnAdapter) {
  const StoredTensors adapter = WriteAdapter("adapter", /*head=*/false);
  Write("merge.yaml",
        "model_name_or_path: model\nadapter_name_or_path: adapter\ntemplate: "
        "default\ntrust_remote_code: true\nexport_dir: merged\nexport_size: 5\n"
        "export_device: cpu\nexport_legacy_format: false\n");
  const CommandResult result = Run({"export", "merge.yaml"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("merged: Model LlamaForCausalLM"), HasSubstr("1 adapters merged")));
  const StoredTensors before = TinyWeights(),
                      after = ReadSafetensors(Path("merged/model.safetensors"));
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [name, weight] : before) {
    const bool adapted = name.find("q_proj") != std::string::npos;
    const std::vector<float> wanted =
        adapted ? Merged(weight, adapter, name.substr(13, 1)) : weight.values;
    EXPECT_LE(RelativeDistance(after.at(name).values, wanted), adapted ? 1e-7 : 0.0) << name;
  }
  EXPECT_EQ(ReadJson(Path("merged/config.json")).at("tie_word_embeddings"), true);
  EXPECT_EQ(ReadText(Path("merged/tokenizer.json")), ReadText(Path("model/tokenizer.json")));
}

TEST_F(ExportTest, AHeadTrainedWholeUntiesAndSeveralAdaptersAdd) {
  const StoredTensors adapter = WriteAdapter("adapter", /*head=*/true);
  WriteAdapter("second", /*head=*/false);
  ASSERT_THAT(Run({"export", "model_name_or_path=model", "adapter_name_or_path=adapter,second",
                   "export_dir=merged"}),
              Succeeds());
  const StoredTensors before = TinyWeights(),
                      after = ReadSafetensors(Path("merged/model.safetensors"));
  EXPECT_EQ(ReadJson(Path("merged/config.json")).at("tie_word_embeddings"), false);
  EXPECT_EQ(after.at("lm_head.weight").values,
            adapter.at("base_model.model.lm_head.weight").values);
  EXPECT_EQ(after.at("model.embed_tokens.weight").values,
            before.at("model.embed_tokens.weight").values);
  const std::string name = "model.layers.1.self_attn.q_proj.weight";
  EXPECT_LE(RelativeDistance(after.at(name).values, Merged(before.at(name), adapter, "1", 2)),
            1e-7);
  // Exporting an exported model leaves it unchanged.
  ASSERT_THAT(Run({"export", "model_name_or_path=merged", "export_dir=again"}), Succeeds());
  EXPECT_EQ(ReadText(Path("again/model.safetensors")), ReadText(Path("merged/model.safetensors")));
}

TEST_F(ExportTest, KeepsTheDtypeOrTakesTheOneNamed) {
  WriteModel("half", TinyWeights(), {{"torch_dtype", "bfloat16"}});
  WriteAdapter("adapter", /*head=*/false);
  ASSERT_THAT(Run({"export", "model_name_or_path=half", "adapter_name_or_path=adapter",
                   "export_dir=merged"}),
              Succeeds());
  EXPECT_THAT(ReadText(Path("merged/model.safetensors")), HasSubstr("\"BF16\""));
  EXPECT_EQ(ReadJson(Path("merged/config.json")).at("torch_dtype"), "bfloat16");
  ASSERT_THAT(Run({"export", "model_name_or_path=half", "export_dir=f16", "infer_dtype=float16"}),
              Succeeds());
  EXPECT_THAT(ReadText(Path("f16/model.safetensors")), HasSubstr("\"F16\""));
}

TEST_F(ExportTest, ARewardModelsValueHeadComesAlong) {
  const StoredTensors head = {{"v_head.summary.weight", Counted({1, 32}, 0.01)},
                              {"v_head.summary.bias", Counted({1}, 0.5)}};
  WriteAdapter("adapter", /*head=*/false);
  Write("adapter/value_head.safetensors", SafetensorsFile(SafetensorsHeader(head), head));
  ASSERT_THAT(Run({"export", "model_name_or_path=model", "adapter_name_or_path=adapter",
                   "export_dir=merged", "stage=rm"}),
              Succeeds());
  const StoredTensors written = ReadSafetensors(Path("merged/value_head.safetensors"));
  ASSERT_EQ(written.size(), 2u);
  for (const auto& [name, tensor] : head) EXPECT_EQ(written.at(name).values, tensor.values) << name;
}

// A .gguf file gives the same losses and text as the model folder that is exported with the same
// keys.
TEST_F(ExportTest, AGgufFileIsTheSameModel) {
  WriteAdapter("adapter", /*head=*/false);
  const std::vector<std::string> words = {"export", "model_name_or_path=model",
                                          "adapter_name_or_path=adapter"};
  const auto exported = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return Run(more);
  };
  ASSERT_THAT(exported({"export_dir=merged"}), Succeeds());
  const CommandResult file = exported({"export_dir=files/m.gguf", "export_size=5"});
  ASSERT_THAT(file, Succeeds());
  EXPECT_THAT(file.err, HasSubstr("export_size changes nothing here: a .gguf file is one file"));
  EXPECT_THAT(file.out, HasSubstr("files/m.gguf: Model LlamaForCausalLM"));
  EXPECT_THAT(file.out, HasSubstr(" in f32, 1 adapters merged"));
  ASSERT_THAT(exported({"export_dir=q8.gguf", "export_gguf_type=q8_0"}), Succeeds());
  Write("in.json", R"({"input_ids": [5, 9, 300, 41, 7, 8, 600, 2], "labels":
                       [-100, 9, 300, 41, 7, 8, 600, 2], "positions": [1, 7]})");
  const auto probed = [&](const std::string& model) {
    EXPECT_THAT(Run({"probe", "model_name_or_path=" + model, "input=in.json", "out=out.json"}),
                Succeeds());
    return ReadJson(Path("out.json"));
  };
  const json wanted = probed("merged");
  EXPECT_EQ(probed("files/m.gguf"), wanted);
  const json rounded = probed("q8.gguf");
  EXPECT_NE(rounded.at("loss"), wanted.at("loss"));
  EXPECT_NEAR(rounded.at("loss").get<double>(), wanted.at("loss").get<double>(), 0.02);
  // The tokenizer is in the file too: a folder exported from the file tokenizes a text in the same
  // way.
  ASSERT_THAT(Run({"export", "model_name_or_path=files/m.gguf", "export_dir=again"}), Succeeds());
  const json before = ReadJson(Path("model/tokenizer.json")),
             after = ReadJson(Path("again/tokenizer.json"));
  EXPECT_EQ(after.at("model").at("merges"), before.at("model").at("merges"));
  EXPECT_EQ(after.at("added_tokens"), before.at("added_tokens"));
  EXPECT_EQ(ReadText(Path("again/model.safetensors")), ReadText(Path("merged/model.safetensors")));
}

TEST_F(ExportTest, RefusesWhatAGgufFileCannotBe) {
  WriteModel("windowed", TinyWeights(),
             {{"architectures", {"MistralForCausalLM"}},
              {"model_type", "mistral"},
              {"sliding_window", 8}});
  const auto refused = [&](std::vector<std::string> words, const std::string& message) {
    words.insert(words.begin(), "export");
    EXPECT_THAT(Run(words), FailsWith(2, HasSubstr(message)));
  };
  refused({"model_name_or_path=windowed", "export_dir=x.gguf"},
          "x.gguf: a GGUF file of the architecture llama cannot represent this model: the "
          "window of layer 0 is 8, not 0");
  refused({"model_name_or_path=model", "export_dir=x.gguf", "infer_dtype=float16"},
          "infer_dtype: float16: the numbers of a .gguf file are of export_gguf_type");
  refused({"model_name_or_path=model", "export_dir=x.gguf", "export_gguf_type=q4_k"},
          "export_gguf_type: expected auto | f32 | f16 | bf16 | q8_0");
  refused({"model_name_or_path=model", "export_dir=x", "export_gguf_type=f16"},
          "export_gguf_type: f16: expected an export_dir that ends in .gguf, got x");
  refused({"model_name_or_path=model", "export_dir=x.gguf", "stage=rm"},
          "stage: rm: a value head has no form in a .gguf file");
}

TEST_F(ExportTest, Refuses) {
  WriteAdapter("wide", false, {{"r", 4}});
  WriteAdapter("pattern", false, {{"rank_pattern", {{"q_proj", 4}}}});
  const auto refused = [&](std::vector<std::string> words, const std::string& message) {
    words.insert(words.begin(), {"export", "model_name_or_path=model"});
    EXPECT_THAT(Run(words), FailsWith(2, HasSubstr(message)));
  };
  refused({}, "export_dir is missing");
  refused({"export_dir=out", "adapter_name_or_path=none"},
          "adapter_name_or_path: no folder 'none'");
  refused({"export_dir=out", "adapter_name_or_path=model"}, "model has no adapter_config.json");
  refused({"export_dir=out", "adapter_name_or_path=wide"},
          "lora_A.weight: shape [2, 32], this base requires [4, 32]");
  refused({"export_dir=out", "adapter_name_or_path=pattern"},
          "q_proj.lora_A.weight: shape [2, 32], this base requires [4, 32]");
  refused({"export_dir=out", "export_size=0"}, "export_size: 0, expected 1 or more");
  refused({"export_dir=model"}, "export_dir: model is what is to be exported");
  refused({"export_dir=out", "infer_dtype=int8"},
          "infer_dtype: expected auto | float32 | bfloat16 | float16");
}

// A script trains an adapter for a step, saves it, continues from the folder, disables it and
// merges it.
TEST_F(ExportTest, AdaptersFromAScript) {
  Write("adapt.lua", R"(
    local moonring = require "moonring"
    local mesh = moonring.comm.mesh {}
    local attention = moonring.attention.create { mesh = mesh }
    local checkpoint = moonring.model.open "model"
    local base = moonring.model.load(checkpoint, { frozen = true })
    local digest = base:digest()
    local adapted = moonring.model.adapt(base,
      { rank = 4, dropout = 0.3, target = { "q_proj", "down_proj" },
      additional_target = { "lm_head" }, seed = 3 })
    print(adapted)
    assert(base:base() == nil and adapted:base():digest() == digest and adapted:digest() ~= digest)

    local tokens = {}
    for i = 1, 40 do tokens[i] = (i * 13) % 60 + 5 end
    local sequence = moonring.comm.sequence { documents = { tokens }, labels = { tokens } }
    local ids, positions, targets, plan = attention:cut(sequence)
    local identity, lengths = {}, {}
    for i = 1, 40 do identity[i], lengths[i] = i, 40 end
    local noise = { seed = 1, step = 2, identity = moonring.tensor(identity, "int64"),
      neftune_alpha = 5, lengths = moonring.tensor(lengths, "int64") }
    local function loss(model, with)
      return -moonring.objectives.log_prob(model:forward(ids, positions, plan, with), model:head(),
        targets):sum()
    end
    local first = loss(base):item()
    assert(loss(adapted):item() == first, "a new adapter changes nothing")
    assert(loss(adapted, noise):item() ~= first
      and loss(adapted, noise):item() == loss(adapted, noise):item())

    local adamw = moonring.trainer.adamw(adapted:parameters(), {})
    for step = 1, 3 do
      loss(adapted, noise):backward()
      adamw:step(0.01)
    end
    local trained = loss(adapted):item()
    assert(trained < first, "it trains")
    assert(loss(base):item() == first and base:digest() == digest, "the base does not")
    adapted:save "adapter"
    local again = moonring.model.adapt(base, { path = "adapter", seed = 0 })
    assert(loss(again):item() == trained and again:digest() == adapted:digest())
    local merged = moonring.model.load(checkpoint, { adapters = { "adapter" } })
    assert(math.abs(loss(merged):item() - trained) < 1e-5 * trained)

    local head = adapted:value_head { seed = 5 }
    assert(not head:found() and head:dropout() == 0.1)
    head:save "adapter"
    assert(again:value_head():found())
    local some = moonring.model.load(checkpoint,
      { trainable_layers = 1, trainable_modules = { "mlp" }, extra_modules = { "norm" } })
    print(some)
    print(pcall(moonring.model.adapt, some, {}))
    print(pcall(moonring.model.adapt, base, { target = { "qproj" } }))
  )");
  const CommandResult result = Run({"adapt.lua"});
  ASSERT_THAT(result, Succeeds());
  EXPECT_THAT(result.out, HasSubstr("LoRA rank 4, scale 2 on down_proj q_proj, whole lm_head"));
  EXPECT_THAT(result.out, HasSubstr("must be frozen"));
  EXPECT_THAT(
      result.out,
      HasSubstr("lora_target: no linear module is called 'qproj', there are q_proj, k_proj"));
  const json config = ReadJson(Path("adapter/adapter_config.json"));
  EXPECT_EQ(config.at("base_model_name_or_path"), "model");
  EXPECT_EQ(config.at("target_modules"), json({"down_proj", "q_proj"}));
  const StoredTensors adapter = ReadSafetensors(Path("adapter/adapter_model.safetensors"));
  EXPECT_EQ(adapter.size(), 9u);
  EXPECT_EQ(adapter.count("base_model.model.model.layers.1.mlp.down_proj.lora_B.weight"), 1u);
  EXPECT_EQ(ReadText(Path("adapter/tokenizer.json")), ReadText(Path("model/tokenizer.json")));
}

}  // namespace
}  // namespace moonring::testing
