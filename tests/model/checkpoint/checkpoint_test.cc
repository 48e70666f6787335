#include "model/checkpoint/checkpoint.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "ATen/ATen.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/files/safetensors.h"
#include "model/files/safetensors_writer.h"
#include "nlohmann/json.hpp"
#include "tests/model/gguf/gguf_writer.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

namespace fs = std::filesystem;

using ::moonring::testing::GgufWriter;
using ::moonring::testing::IsOk;
using ::moonring::testing::ReadAll;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::StatusIs;
using ::moonring::testing::TinyGguf;
using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

std::string Golden(const std::string& name) { return "tests/golden/model/" + name; }

// A copy of a golden folder that a test may change.
class CopyOf {
 public:
  explicit CopyOf(const std::string& name, const std::string& in = "tests/golden/model/") {
    for (const auto& entry : fs::directory_iterator(in + name))
      folder_.Write(entry.path().filename(), ReadAll(entry.path()));
  }
  std::string path() const { return folder_.path(); }
  const ScratchFolder& folder() const { return folder_; }
  void Set(const std::string& key, const json& value) const {
    json config = json::parse(ReadAll(folder_ / "config.json"));
    config[key] = value;
    folder_.Write("config.json", config.dump());
  }
  // Rewrites model.safetensors with a tensor removed, replaced or added.
  void Rewrite(const std::string& without,
               const std::vector<std::pair<std::string, at::Tensor>>& with,
               at::ScalarType dtype = at::kFloat) const {
    std::vector<TensorToWrite> tensors;
    {
      const auto file = SafetensorsFile::Open(folder_ / "model.safetensors");
      for (const auto& [name, entry] : (*file)->entries()) {
        const at::Tensor tensor = (*file)->Read(name)->clone();
        if (name != without)
          tensors.push_back({name, entry.shape, dtype, [tensor] { return tensor; }});
      }
    }
    for (const auto& [name, tensor] : with)
      tensors.push_back({name, tensor.sizes().vec(), dtype, [tensor = tensor] { return tensor; }});
    auto files = StagedFiles::Create(folder_.path());
    ASSERT_OK(StageSafetensors(*files, "model.safetensors", tensors));
    ASSERT_OK(files->Commit());
  }

 private:
  ScratchFolder folder_;
};

TEST(CheckpointTest, OpensEveryGoldenFolder) {
  for (const char* name : {"bf16", "gqa_tied", "head_dim", "mha_untied", "mistral_window",
                           "mqa_5_1", "rope_parameters", "sharded", "uneven_6_3"}) {
    ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(Golden(name)));
    EXPECT_EQ(checkpoint->path(), Golden(name));
    EXPECT_THAT(checkpoint->extra_names(), IsEmpty()) << name;
    const std::vector<std::string> names = checkpoint->names();
    EXPECT_EQ(names.front(), "model.embed_tokens.weight");
    EXPECT_EQ(names.back(),
              checkpoint->config().tie_word_embeddings ? "model.norm.weight" : "lm_head.weight")
        << name;
    EXPECT_EQ(names.size(),
              2 + 9 * checkpoint->config().layers + !checkpoint->config().tie_word_embeddings)
        << name;
    for (const std::string& weight : names) {
      ASSERT_OK_AND_ASSIGN(const at::Tensor tensor, checkpoint->Load(weight, at::kDouble));
      EXPECT_EQ(tensor.scalar_type(), at::kDouble);
      EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name << " " << weight;
    }
    EXPECT_THAT(checkpoint->Load("model.layers.99.x.weight", at::kFloat),
                StatusIs(kNotFound, HasSubstr("model.layers.99.x.weight")));
  }
}

TEST(CheckpointTest, LoadsInAnyDtype) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(Golden("bf16")));
  const std::string name = "model.embed_tokens.weight";
  const at::Tensor stored = *checkpoint->Load(name, at::kBFloat16);
  EXPECT_TRUE(at::equal(*checkpoint->Load(name, at::kFloat), stored.to(at::kFloat)));
  EXPECT_TRUE(at::equal(*checkpoint->Load(name, at::kDouble), stored.to(at::kDouble)));
}

TEST(CheckpointTest, NamesWhatIsMissing) {
  const ScratchFolder folder;
  EXPECT_THAT(Checkpoint::Open(folder / "nowhere"),
              StatusIs(kNotFound, absl::StrCat("model_name_or_path: no folder or file '",
                                               folder / "nowhere", "'")));
  EXPECT_THAT(Checkpoint::Open(""),
              StatusIs(kNotFound, "model_name_or_path: no folder or file ''"));
  EXPECT_THAT(Checkpoint::Open(folder.path()),
              StatusIs(kNotFound, HasSubstr("neither config.json nor a .gguf file")));
  EXPECT_THAT(Checkpoint::Open(folder.Write("text.txt", "hello")),
              StatusIs(kInvalid, HasSubstr("text.txt: not a valid GGUF file")));
  folder.Write("config.json", ReadAll(Golden("gqa_tied") + "/config.json"));
  EXPECT_THAT(Checkpoint::Open(folder.path()),
              StatusIs(kNotFound, HasSubstr("no model.safetensors")));
}

TEST(CheckpointTest, NamesTheWeightThatIsMissingOrMisshapen) {
  {
    const CopyOf copy("gqa_tied");
    copy.Rewrite("model.layers.1.self_attn.k_proj.weight", {});
    EXPECT_THAT(
        Checkpoint::Open(copy.path()),
        StatusIs(kNotFound, AllOf(HasSubstr(copy.path()),
                                  HasSubstr("the tensor model.layers.1.self_attn.k_proj.weight ["),
                                  HasSubstr("is missing"))));
    copy.Rewrite("", {{"model.layers.1.self_attn.k_proj.weight", at::ones({3, 5})}});
    EXPECT_THAT(
        Checkpoint::Open(copy.path()),
        StatusIs(
            kInvalid,
            AllOf(
                HasSubstr(
                    "model.safetensors: model.layers.1.self_attn.k_proj.weight: expected shape ["),
                HasSubstr("found [3, 5]"))));
  }
  const CopyOf whole("gqa_tied");
  whole.Rewrite("", {}, at::kLong);
  EXPECT_THAT(
      Checkpoint::Open(whole.path()),
      StatusIs(kUnimplemented,
               HasSubstr("model.embed_tokens.weight: dtype I64 is not supported as a weight")));
  const CopyOf larger("gqa_tied");
  larger.Set("vocab_size", 1000);
  EXPECT_THAT(Checkpoint::Open(larger.path()),
              StatusIs(kInvalid, HasSubstr("model.embed_tokens.weight: expected shape [1000, ")));
  const CopyOf untied("gqa_tied");
  untied.Set("tie_word_embeddings", false);
  EXPECT_THAT(Checkpoint::Open(untied.path()),
              StatusIs(kNotFound, HasSubstr("the tensor lm_head.weight")));
  const CopyOf broken("gqa_tied");
  broken.folder().Write("config.json", "{\n \"a\": }");
  EXPECT_THAT(Checkpoint::Open(broken.path()),
              StatusIs(kInvalid, HasSubstr("config.json: line 2, column 7: ")));
}

// The errors of config_test.cc for a folder: each is one line that names the file, with the status
// that the header documents. They end a run with exit code 2 before the first weight is read.
TEST(CheckpointTest, SaysInOneLineWhatIsWrongWithTheConfig) {
  const std::vector<std::tuple<const char*, json, absl::StatusCode, const char*>> wrong = {
      {"architectures", {"LlamaForCausalLn"}, kUnimplemented, "(did you mean 'LlamaForCausalLM'?)"},
      {"model_type", "qwen2", kInvalid, "model_type: expected 'llama'"},
      {"quantization_config",
       {{"quant_method", "awq"}},
       kUnimplemented,
       "quantization_config (awq): a quantised checkpoint is not trained here"},
      {"rope_scaling",
       {{"rope_type", "ntk"}, {"factor", 2}},
       kUnimplemented,
       "rope_scaling: rope_type: 'ntk' is not known"},
      {"rope_scaling",
       {{"rope_type", "llama3"}, {"factor", 8}},
       kInvalid,
       "rope_scaling: original_max_position_embeddings: missing"},
      {"rope_scaling",
       {{"rope_type", "longrope"}, {"short_factor", {1.0}}, {"long_factor", {1.0}}},
       kInvalid,
       "rope_scaling: short_factor: expected a list of 4 positive"},
      {"num_key_value_heads", 3, kInvalid,
       "num_key_value_heads: expected a divisor of num_attention_heads 4, got 3"},
      {"attention_dropout", 0.1, kUnimplemented, "set attention_dropout to 0"},
  };
  for (const auto& [key, value, code, words] : wrong) {
    const CopyOf copy("gqa_tied");
    copy.Set(key, value);
    EXPECT_THAT(Checkpoint::Open(copy.path()),
                StatusIs(code, AllOf(StartsWith(absl::StrCat(copy.path(), "/config.json: ")),
                                     HasSubstr(words), Not(HasSubstr("\n")))))
        << key << " " << value;
  }
}

// Each family requires its weights under its own names; a missing one is named.
TEST(CheckpointTest, NamesTheWeightThatAFamilyMisses) {
  const std::vector<std::pair<const char*, const char*>> missing = {
      {"mixtral", "model.layers.1.block_sparse_moe.experts.3.w2.weight"},
      {"qwen2_moe", "model.layers.1.mlp.shared_expert_gate.weight"},
      {"qwen3_moe", "model.layers.1.mlp.gate.weight"},
      {"internlm2", "model.layers.0.attention.wqkv.weight"},
      {"gemma2", "model.layers.0.pre_feedforward_layernorm.weight"},
      {"llama_bias", "model.layers.0.mlp.gate_proj.bias"},
  };
  for (const auto& [family, name] : missing) {
    const CopyOf copy(family, "tests/golden/families/");
    copy.Rewrite(name, {});
    const absl::StatusOr<std::shared_ptr<Checkpoint>> opened = Checkpoint::Open(copy.path());
    EXPECT_THAT(opened,
                StatusIs(kNotFound, AllOf(StartsWith(copy.path()),
                                          HasSubstr(absl::StrCat("the tensor ", name, " [")),
                                          HasSubstr("is missing"))));
    copy.Rewrite("", {{name, at::ones({3, 5})}});
    EXPECT_THAT(Checkpoint::Open(copy.path()),
                StatusIs(kInvalid, HasSubstr(absl::StrCat(name, ": expected shape ["))));
  }
}

TEST(CheckpointTest, ScalesItsRope) {
  const CopyOf copy("gqa_tied");
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(copy.path()));
  const int64_t context = checkpoint->config().max_position_embeddings;
  EXPECT_THAT(checkpoint->ScaleRope("yarm", 10),
              StatusIs(kInvalid, HasSubstr("did you mean 'yarn'?")));
  ASSERT_OK_AND_ASSIGN(const std::string same, checkpoint->ScaleRope("yarn", context));
  EXPECT_THAT(same, HasSubstr("unchanged"));
  EXPECT_EQ(checkpoint->config().rotaries[0].kind, RopeKind::kDefault);
  ASSERT_OK_AND_ASSIGN(const std::string report, checkpoint->ScaleRope("yarn", 3 * context));
  EXPECT_THAT(report, HasSubstr("rotary embedding: yarn, factor 3"));
  EXPECT_EQ(checkpoint->config().rotaries[0].kind, RopeKind::kYarn);
  EXPECT_EQ(checkpoint->config().max_position_embeddings, 3 * context);
}

TEST(CheckpointTest, ListsExtraWeightsButNotBuffers) {
  const CopyOf copy("gqa_tied");
  ASSERT_OK_AND_ASSIGN(const auto before, Checkpoint::Open(copy.path()));
  const at::Tensor embedding = *before->Load("model.embed_tokens.weight", at::kFloat);
  copy.Rewrite("", {{"model.layers.0.self_attn.rotary_emb.inv_freq", at::ones({4})},
                    {"lm_head.weight", embedding},
                    {"score.weight", at::ones({1, 2})}});
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(copy.path()));
  EXPECT_THAT(checkpoint->extra_names(), ElementsAre("score.weight"));
  EXPECT_THAT(checkpoint->names(), Not(Contains("lm_head.weight")));
}

TEST(CheckpointTest, ReportsAMissingShard) {
  const CopyOf copy("sharded");
  fs::remove(copy.folder() / "model-00002-of-00003.safetensors");
  EXPECT_THAT(Checkpoint::Open(copy.path()),
              StatusIs(kNotFound, AllOf(HasSubstr(copy.path()),
                                        HasSubstr("the shard model-00002-of-00003.safetensors"),
                                        HasSubstr("is missing"))));
}

// A folder without weights, or config.json itself, can be opened, but only the config can be read.
TEST(CheckpointTest, OpensAConfigAlone) {
  const CopyOf copy("gqa_tied");
  ASSERT_OK_AND_ASSIGN(const auto whole, Checkpoint::Open(copy.path()));
  fs::remove(copy.folder() / "model.safetensors");
  EXPECT_THAT(Checkpoint::Open(copy.path()),
              StatusIs(kNotFound, HasSubstr("no model.safetensors")));
  for (const std::string& path : {copy.path(), copy.path() + "/config.json"}) {
    ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::OpenConfig(path));
    EXPECT_EQ(checkpoint->config().hidden_size, whole->config().hidden_size);
    EXPECT_EQ(checkpoint->names(), whole->names());
    EXPECT_THAT(checkpoint->stored_dtypes(), IsEmpty());
    EXPECT_THAT(checkpoint->extra_names(), IsEmpty());
    EXPECT_EQ(checkpoint->file_bytes(), 0);
    EXPECT_THAT(checkpoint->Load("model.norm.weight", at::kFloat),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("without weights")));
  }
  EXPECT_THAT(Checkpoint::OpenConfig(copy.folder() / "nowhere.json"),
              StatusIs(kNotFound, HasSubstr("no folder or file")));
  const ScratchFolder folder;
  EXPECT_THAT(Checkpoint::OpenConfig(folder.path()),
              StatusIs(kNotFound, HasSubstr("neither config.json nor a .gguf file")));
}

TEST(CheckpointTest, KeepsCompanions) {
  const CopyOf copy("gqa_tied");
  copy.folder().Write("tokenizer.json", "{\"t\": 1}");
  copy.folder().Write("chat_template.jinja", "{{ x }}");
  copy.folder().Write("README.md", "not one of them");
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(copy.path()));
  EXPECT_EQ(checkpoint->companions(),
            (std::map<std::string, std::string>{{"chat_template.jinja", "{{ x }}"},
                                                {"tokenizer.json", "{\"t\": 1}"}}));
}

TEST(CheckpointTest, OpensAGgufByItselfOrInItsFolder) {
  const ScratchFolder folder;
  const std::string path = folder.Write("tiny.gguf", TinyGguf().Bytes());
  for (const std::string& given : {path, folder.path()}) {
    ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(given));
    EXPECT_EQ(checkpoint->config().hidden_size, 8);
    EXPECT_THAT(
        checkpoint->companions(),
        AllOf(Contains(Key("tokenizer.json")), Contains(Key("tokenizer_config.json")),
              Contains(Key("generation_config.json")), Contains(Key("special_tokens_map.json"))));
    EXPECT_THAT(checkpoint->extra_names(), IsEmpty());
    EXPECT_EQ(checkpoint->Load("model.norm.weight", at::kBFloat16)->scalar_type(), at::kBFloat16);
  }
  folder.Write("second.gguf", TinyGguf().Bytes());
  EXPECT_THAT(Checkpoint::Open(folder.path()),
              StatusIs(kInvalid, AllOf(HasSubstr("2 .gguf files: name one of"),
                                       HasSubstr("second.gguf"), HasSubstr("tiny.gguf"))));

  const ScratchFolder parts;
  GgufWriter part = TinyGguf();
  part.Add("split.count", GgufWriter::kU16, std::string("\2\0", 2));
  for (const char* name : {"tiny-00001-of-00002.gguf", "tiny-00002-of-00002.gguf"})
    parts.Write(name, part.Bytes());
  EXPECT_THAT(
      Checkpoint::Open(parts.path()),
      StatusIs(kUnimplemented, HasSubstr("tiny-00001-of-00002.gguf: one of 2 parts of a model")));

  GgufWriter quantised = TinyGguf();
  quantised.Tensor("output.weight", {12, 8}, 12, "");
  EXPECT_THAT(Checkpoint::Open(folder.Write("tiny.gguf", quantised.Bytes())),
              StatusIs(kInvalid, HasSubstr("output.weight is Q4_K with rows of 8")));
}

class SmolLM2Test : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("SMOLLM2_GGUF");
    ASSERT_NE(path, nullptr);
    ASSERT_OK_AND_ASSIGN(checkpoint_, Checkpoint::Open(path));
  }
  std::shared_ptr<Checkpoint> checkpoint_;
};

TEST_F(SmolLM2Test, ConfigIsThePublishedOne) {
  const ModelConfig& config = checkpoint_->config();
  EXPECT_EQ(config.vocab_size, 49152);
  EXPECT_EQ(config.hidden_size, 576);
  EXPECT_EQ(config.intermediate_size, 1536);
  EXPECT_EQ(config.layers, 30);
  EXPECT_EQ(config.heads, 9);
  EXPECT_EQ(config.kv_heads, 3);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rotaries[0].theta, 1e5);
  EXPECT_EQ(config.max_position_embeddings, 8192);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.bos_token_id, 1);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2));
  EXPECT_EQ(config.pad_token_id, 2);
  EXPECT_THAT(checkpoint_->extra_names(), IsEmpty());
  int64_t elements = 0;
  for (const std::string& name : checkpoint_->names())
    elements += checkpoint_->Load(name, at::kFloat)->numel();
  EXPECT_EQ(elements, 134'515'008);
}

// Weights of SmolLM2's GGUF file equal those of gguf-py (make_gguf_golden.py). Single values are
// equal, because both compute d q + m in fp32. Sums of up to 28 million doubles differ by the order
// of addition: the bound of 1e-9 times the sum of magnitudes is far above that, and far below the
// effect of one wrong element.
TEST_F(SmolLM2Test, WeightsAreTheReferences) {
  const json golden = json::parse(ReadAll("tests/model/gguf/gguf_golden.json"));
  ASSERT_EQ(golden.size(), 11);
  for (const auto& [name, wanted] : golden.items()) {
    ASSERT_OK_AND_ASSIGN(const at::Tensor loaded, checkpoint_->Load(name, at::kFloat));
    EXPECT_EQ(loaded.sizes(), wanted["shape"].get<std::vector<int64_t>>()) << name;
    const at::Tensor flat = loaded.flatten();
    for (int i = 0; i < 8; ++i)
      EXPECT_EQ(flat[i].item<float>(), wanted["first"][i].get<float>()) << name << " " << i;
    for (size_t i = 0; i < wanted["places"].size(); ++i) {
      EXPECT_EQ(flat[wanted["places"][i].get<int64_t>()].item<float>(),
                wanted["values"][i].get<float>())
          << name << " at " << wanted["places"][i];
    }
    const at::Tensor wide = flat.to(at::kDouble),
                     place = at::arange(flat.numel()).remainder(1009).to(at::kDouble);
    const double magnitude = wide.abs().sum().item<double>();
    EXPECT_NEAR(wide.sum().item<double>(), wanted["sum"].get<double>(), 1e-9 * magnitude) << name;
    EXPECT_NEAR((wide * wide).sum().item<double>(), wanted["sum_of_squares"].get<double>(),
                1e-9 * magnitude)
        << name;
    EXPECT_NEAR((wide * place).sum().item<double>(), wanted["sum_by_place"].get<double>(),
                1e-9 * 1009 * magnitude)
        << name;
  }
}

TEST_F(SmolLM2Test, TokenizerIsWhole) {
  const json tokenizer = json::parse(checkpoint_->companions().at("tokenizer.json"));
  EXPECT_EQ(tokenizer["model"]["vocab"].size(), 49152);
  EXPECT_EQ(tokenizer["model"]["merges"].size(), 48900);
  EXPECT_EQ(tokenizer["added_tokens"].size(), 17);
  EXPECT_EQ(tokenizer["pre_tokenizer"]["pretokenizers"][0]["type"], "Digits");
  const json config = json::parse(checkpoint_->companions().at("tokenizer_config.json"));
  EXPECT_EQ(config["bos_token"], "<|im_start|>");
  EXPECT_EQ(config["eos_token"], "<|im_end|>");
  EXPECT_EQ(config["pad_token"], "<|im_end|>");
  EXPECT_EQ(config["unk_token"], "<|endoftext|>");
  EXPECT_EQ(config["model_max_length"], 8192);
  EXPECT_THAT(config["chat_template"].get<std::string>(),
              HasSubstr("You are a helpful AI assistant named SmolLM"));
  EXPECT_EQ(json::parse(checkpoint_->companions().at("generation_config.json")),
            json::parse(R"({"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2})"));
}

}  // namespace
}  // namespace moonring::model
