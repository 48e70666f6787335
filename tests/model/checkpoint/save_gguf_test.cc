#include "model/checkpoint/save_gguf.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text/fnv1a.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/checkpoint/checkpoint.h"
#include "model/config/config_difference.h"
#include "model/config/family.h"
#include "model/config/weights.h"
#include "model/families/families.h"
#include "model/families/parse_config.h"
#include "model/gguf/gguf.h"
#include "nlohmann/json.hpp"
#include "tests/model/golden_families.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

namespace fs = std::filesystem;

using ::moonring::testing::GoldenFamilies;
using ::moonring::testing::IsOk;
using ::moonring::testing::kGoldenFamilies;
using ::moonring::testing::ReadAll;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::StatusIs;
using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kUnimplementedInGguf = absl::StatusCode::kUnimplemented;

// A property of a golden model that GGUF cannot express, and a change of its config.json (a merge
// patch, RFC 7396) that removes the property; "" if GGUF can express the model.
struct Change {
  const char *cannot, *patch;
};

const std::map<std::string, Change>& Changes() {
  constexpr char kNothing[] = "";
  static const auto* changes = new std::map<std::string, Change>{
      {"deepseek_v3_whole", {"general.architecture: 'deepseek2'", kNothing}},  // it has no experts
      {"deepseek_v3_yarn", {"general.architecture: 'deepseek2'", kNothing}},
      {"deepseek_v3",
       {"", R"({"rope_parameters": {"rope_type": "yarn", "factor": 8.0, "mscale": 0.6,
                "mscale_all_dim": 0.6, "original_max_position_embeddings": 32}})"}},
      {"gemma2", {"the scale of attention's scores", R"({"query_pre_attn_scalar": 8})"}},
      {"gemma3",
       {"the scale of attention's scores",
        R"({"query_pre_attn_scalar": 8, "sliding_window_pattern": 6,
            "rope_local_base_freq": 10000.0})"}},
      {"gemma3_linear",
       {"rope_theta of layer 0 is 500, not 10000",
        R"({"layer_types": ["sliding_attention", "sliding_attention"],
                "rope_local_base_freq": 10000.0})"}},
      {"gpt_oss_yarn",
       {"the window of layer 0 is 0, not 7",
        R"({"layer_types": ["sliding_attention", "full_attention"]})"}},
      {"internlm2", {"the rotary scaling of layer 0, dynamic,", R"({"rope_scaling": null})"}},
      {"llama3_rope",
       {"factors that are not llama3's with factor 8 over 8192 positions",
        R"({"rope_scaling": {"original_max_position_embeddings": 8192}})"}},
      {"mistral_window",
       {"the window of layer 0 is 7, not 0 as it would be read from the file (sliding_window: null "
        "in config.json writes it without)",
        R"({"sliding_window": null})"}},
      {"qwen2_moe",
       {"whether there are experts of layer 0 is 0, not 1", R"({"decoder_sparse_step": 1})"}},
      {"qwen2_moe_layers",
       {"the window of layer 0", R"({"use_sliding_window": false, "norm_topk_prob": false,
                                     "layer_types": null})"}},
      {"qwen2_moe_norm",
       {"the window of layer 0", R"({"use_sliding_window": false, "norm_topk_prob": false})"}},
      {"qwen2_window", {"the window of layer 1", R"({"use_sliding_window": false,
                                                     "layer_types": null})"}},
      {"qwen2_yarn",
       {"the rotary scaling's attention_factor is 1.3",
        R"({"rope_scaling": {"attention_factor": null}})"}},
      {"qwen3_5", {"the kind of layer 1", R"({"layer_types": ["linear_attention", "full_attention",
                                                   "linear_attention"]})"}},
      {"qwen3_moe",
       {"whether there are experts of layer 0 is 0, not 1", R"({"mlp_only_layers": []})"}},
      {"qwen3_next",
       {"whether there are experts of layer 0 is 0, not 1", R"({"mlp_only_layers": []})"}},
      {"rope_dynamic", {"the rotary scaling of layer 0, dynamic,", R"({"rope_scaling": null})"}},
      {"rope_yarn_mscale",
       {"the rotary scaling's attention_factor",
        R"({"rope_scaling": {"mscale": null, "mscale_all_dim": null, "truncate": null}})"}},
      {"smollm3", {"the use of rotary embedding of layer 0", R"({"no_rope_layers": [1, 1]})"}},
      {"smollm3_window",
       {"the window of layer 1", R"({"no_rope_layers": [1, 1], "use_sliding_window": false})"}},
  };
  return *changes;
}

base::Parameters LoadedParameters(const Checkpoint& checkpoint) {
  base::Parameters parameters;
  for (const std::string& name : checkpoint.names())
    parameters.push_back(
        std::make_shared<base::Parameter>(name, *checkpoint.Load(name, at::kFloat)));
  return parameters;
}

base::Parameters RandomWeights(const ModelConfig& config) {
  at::manual_seed(5);
  base::Parameters parameters;
  for (const WeightShape& weight : WantedWeights(config))
    parameters.push_back(
        std::make_shared<base::Parameter>(weight.name, at::randn(weight.shape, at::kFloat)));
  return parameters;
}

// Returns a weight's value after export and import, if the file stores it plus 1 or its
// exponential.
at::Tensor ThereAndBack(const ModelConfig& config, const std::string& name,
                        const at::Tensor& weight) {
  if (absl::EndsWith(name, "A_log")) return weight.exp().log();
  const bool one = config.family->gguf.norms_have_one && absl::EndsWith(name, "norm.weight") &&
                   !absl::EndsWith(name, "linear_attn.norm.weight");
  return one ? (weight + 1) - 1 : weight;
}

// Expects that the file opens as the same model: equal config and bit-identical weights.
void ExpectSameModel(const std::string& path, const ModelConfig& config,
                     const base::Parameters& parameters) {
  ASSERT_OK_AND_ASSIGN(const auto again, Checkpoint::Open(path));
  EXPECT_EQ(ConfigDifference(config, again->config()), "");
  EXPECT_THAT(again->extra_names(), ::testing::IsEmpty());
  ASSERT_EQ(again->names().size(), parameters.size());
  for (const auto& parameter : parameters) {
    const std::string& name = parameter->name();
    ASSERT_OK_AND_ASSIGN(const at::Tensor weight, again->Load(name, at::kFloat));
    EXPECT_TRUE(at::equal(weight, ThereAndBack(config, name, parameter->weight()))) << name;
  }
}

class SaveGgufTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::string Folder() const { return kGoldenFamilies + GetParam(); }
  // Expects that the model is rejected with a message that contains `cannot`; or that it is written
  // if `cannot` is empty.
  void Check(const Checkpoint& checkpoint, const std::string& cannot) const {
    const ScratchFolder folder;
    const std::string path = folder / "x.gguf";
    const base::Parameters parameters = LoadedParameters(checkpoint);
    const absl::Status status = SaveGguf(path, checkpoint.config(), parameters, {});
    EXPECT_EQ(CheckGguf(path, checkpoint.config(), {}).status(), status);
    if (cannot.empty()) {
      ASSERT_THAT(status, IsOk());
      ExpectSameModel(path, checkpoint.config(), parameters);
    } else {
      EXPECT_THAT(status,
                  StatusIs(kUnimplementedInGguf, AllOf(HasSubstr(path), HasSubstr(cannot))));
      EXPECT_FALSE(fs::exists(path));
    }
  }
};

TEST_P(SaveGgufTest, OpensAsItWasOrSaysWhatItCannot) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(Folder()));
  const ModelConfig& config = checkpoint->config();
  const bool known = !config.family->gguf.architecture.empty();
  const auto change = Changes().find(GetParam());
  if (!known) {
    Check(*checkpoint, config.architecture +
                           " has no form in GGUF that is known here; these have: "
                           "LlamaForCausalLM, ");
    return;
  }
  Check(*checkpoint, change == Changes().end() ? "" : change->second.cannot);
  if (change == Changes().end() || *change->second.patch == '\0') return;
  json text = json::parse(ReadAll(Folder() + "/config.json"));
  const json patch = json::parse(change->second.patch);
  text.merge_patch(patch);
  // A null in the patch removes a key; but without the key sliding_window, the default of 4,096
  // would be used, so null is kept.
  if (patch.contains("sliding_window")) text["sliding_window"] = patch["sliding_window"];
  ASSERT_OK_AND_ASSIGN(const ModelConfig changed, ParseConfig(text.dump(), "config.json"));
  const base::Parameters parameters = RandomWeights(changed);
  const ScratchFolder folder;
  ASSERT_OK(SaveGguf(folder / "x.gguf", changed, parameters, {}));
  ExpectSameModel(folder / "x.gguf", changed, parameters);
}

INSTANTIATE_TEST_SUITE_P(Models, SaveGgufTest, ::testing::ValuesIn(GoldenFamilies()),
                         [](const auto& info) { return info.param; });

// Returns the 64-bit FNV-1a hash as hexadecimal digits.
std::string Fnv(absl::string_view bytes) { return absl::StrFormat("%016x", base::Fnv1a(bytes)); }

void ExpectSameValue(const GgufFile& file, const std::string& key, const json& wanted) {
  SCOPED_TRACE(key);
  if (wanted.is_string()) {
    EXPECT_EQ(*file.String(key), wanted.get<std::string>());
  } else if (wanted.is_boolean()) {
    EXPECT_EQ(*file.Bool(key), wanted.get<bool>());
  } else if (wanted.is_array()) {
    EXPECT_EQ(*file.Ints(key), wanted.get<std::vector<int64_t>>());
  } else if (wanted.is_number_integer()) {
    EXPECT_EQ(*file.Int(key), wanted.get<int64_t>());
  } else {
    EXPECT_EQ(*file.Number(key), wanted.get<double>());
  }
}

// Files equal those written by the gguf package (tests/golden/gguf/make.py) in every key, and byte
// by byte in every tensor.
TEST(SaveGgufGoldenTest, IsWhatThePackageWrites) {
  const json golden = json::parse(ReadAll("tests/golden/gguf/files.json"));
  EXPECT_GT(golden.size(), 15);
  for (const auto& [name, wanted] : golden.items()) {
    SCOPED_TRACE(name);
    const ScratchFolder folder;
    ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(kGoldenFamilies + name));
    ASSERT_OK(SaveGguf(folder / "x.gguf", checkpoint->config(), LoadedParameters(*checkpoint), {}));
    ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::Open(folder / "x.gguf"));
    for (const auto& [key, value] : wanted["metadata"].items()) {
      ASSERT_TRUE(file->Has(key)) << key;
      ExpectSameValue(*file, key, value);
    }
    EXPECT_EQ(file->tensors().size(), wanted["tensors"].size());
    for (const auto& [tensor, of] : wanted["tensors"].items()) {
      const auto found = file->tensors().find(tensor);
      ASSERT_NE(found, file->tensors().end()) << tensor;
      EXPECT_EQ(found->second.shape, of["shape"].get<std::vector<int64_t>>()) << tensor;
      const at::Tensor bytes = *file->ReadBlocks(tensor);
      EXPECT_EQ(Fnv({reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
                     static_cast<size_t>(bytes.numel())}),
                of["fnv"].get<std::string>())
          << tensor;
    }
  }
}

// Experts stacked in one tensor per layer, as Transformers 5 saves them, give the same file as
// separate experts.
TEST(SaveGgufTest, StackedExpertsAreTheSameFile) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       Checkpoint::Open(absl::StrCat(kGoldenFamilies, "qwen3_5_moe")));
  ModelConfig each = checkpoint->config();
  each.experts.storage = ExpertStorage::kEach;
  ModelConfig stacked = each;
  stacked.experts.storage = ExpertStorage::kStacked;
  const base::Parameters apart = RandomWeights(each);
  std::map<std::string, at::Tensor> weights;
  for (const auto& parameter : apart) weights[parameter->name()] = parameter->weight();
  base::Parameters together;
  for (const WeightShape& wanted : WantedWeights(stacked)) {
    at::Tensor weight = weights[wanted.name];
    if (!weight.defined()) {
      const bool down = absl::EndsWith(wanted.name, "down_proj");
      const std::string stem = wanted.name.substr(0, wanted.name.rfind('.') + 1);
      std::vector<at::Tensor> experts;
      for (int64_t e = 0; e < each.experts.count; ++e) {
        const auto of = [&](const char* map) {
          return weights.at(absl::StrCat(stem, e, ".", map, ".weight"));
        };
        experts.push_back(down ? of("down_proj") : at::cat({of("gate_proj"), of("up_proj")}));
      }
      weight = at::stack(experts);
    }
    together.push_back(std::make_shared<base::Parameter>(wanted.name, weight));
  }
  const ScratchFolder folder;
  ASSERT_OK(SaveGguf(folder / "a.gguf", each, apart, {}));
  ASSERT_OK(SaveGguf(folder / "b.gguf", stacked, together, {}));
  ASSERT_OK_AND_ASSIGN(const auto a, GgufFile::Open(folder / "a.gguf"));
  ASSERT_OK_AND_ASSIGN(const auto b, GgufFile::Open(folder / "b.gguf"));
  ASSERT_EQ(a->tensors().size(), b->tensors().size());
  for (const auto& [name, tensor] : a->tensors())
    EXPECT_TRUE(at::equal(*a->Read(name), *b->Read(name))) << name;
}

std::map<std::string, std::string> TypesIn(const std::string& path) {
  std::map<std::string, std::string> types;
  const auto file = GgufFile::Open(path);
  EXPECT_THAT(file, IsOk());
  for (const auto& [name, tensor] : (*file)->tensors())
    types[name] = FindGgufType(tensor.type)->name;
  return types;
}

// Types of tensors are chosen as by llama.cpp's converter. qwen3_moe has routers, and rows of 20
// and of 32 elements.
TEST(SaveGgufTest, ChoosesTheTypeOfEachTensor) {
  json text = json::parse(ReadAll(absl::StrCat(kGoldenFamilies, "qwen3_moe/config.json")));
  text.merge_patch(json::parse(R"({"mlp_only_layers": [], "hidden_size": 64})"));
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, ParseConfig(text.dump(), "config.json"));
  ASSERT_NE(config.experts.intermediate % 32, 0);
  const ScratchFolder folder;
  for (const auto& [type, number] :
       {std::pair("F16", 1), std::pair("BF16", 32), std::pair("Q8_0", 7)}) {
    SCOPED_TRACE(type);
    const std::string path = folder / "x.gguf";
    const base::Parameters parameters = RandomWeights(config);
    ASSERT_OK(SaveGguf(path, config, parameters, {.type = type, .name = "x"}));
    auto types = TypesIn(path);
    EXPECT_EQ(types["token_embd.weight"], type);
    EXPECT_EQ(types["blk.0.attn_q.weight"], type);
    EXPECT_EQ(types["blk.0.ffn_gate_exps.weight"], type);
    EXPECT_EQ(types["blk.0.ffn_down_exps.weight"], std::string(type) == "Q8_0" ? "F16" : type);
    for (const char* wide : {"blk.0.ffn_gate_inp.weight", "blk.0.attn_q_norm.weight",
                             "blk.0.attn_norm.weight", "output_norm.weight"})
      EXPECT_EQ(types[wide], "F32") << wide;
    ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::Open(path));
    EXPECT_EQ(*file->Int("general.file_type"), number);
    EXPECT_EQ(*file->String("general.name"), "x");
    ASSERT_OK_AND_ASSIGN(const auto again, Checkpoint::Open(path));
    for (const auto& parameter : parameters) {
      // The bound is half a quantization step of the block with the greatest number, which is 127
      // steps, plus the effect of rounding the scale to fp16 on 127 steps.
      const double step = parameter->weight().abs().max().item<double>() / 127;
      const at::Tensor read = *again->Load(parameter->name(), at::kFloat);
      EXPECT_LE((read - parameter->weight()).abs().max().item<double>(),
                (0.5 + 127 * 0x1p-11) * step)
          << parameter->name();
    }
  }
  EXPECT_THAT(SaveGguf(folder / "y.gguf", config, RandomWeights(config), {.type = "Q4_K"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected F32, F16, BF16 or Q8_0, got 'Q4_K'")));
}

base::Parameters Qwen3() {
  return LoadedParameters(**Checkpoint::Open(absl::StrCat(kGoldenFamilies, "qwen3")));
}

const ModelConfig& Qwen3Config() {
  static const auto* config =
      new ModelConfig((*Checkpoint::Open(absl::StrCat(kGoldenFamilies, "qwen3")))->config());
  return *config;
}

TEST(SaveGgufTest, RefusesNonFiniteNumbers) {
  const ScratchFolder folder;
  base::Parameters parameters = Qwen3();
  at::Tensor weight = parameters[3]->weight().clone();
  weight.view({-1})[1] = std::nanf("");
  parameters[3] = std::make_shared<base::Parameter>(parameters[3]->name(), weight);
  EXPECT_THAT(SaveGguf(folder / "x.gguf", Qwen3Config(), parameters, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("that are not finite")));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(SaveGgufTest, RefusesParametersThatAreNotTheModels) {
  const ScratchFolder folder;
  base::Parameters parameters = Qwen3();
  parameters.pop_back();
  EXPECT_THROW(SaveGguf(folder / "x.gguf", Qwen3Config(), parameters, {}).IgnoreError(),
               c10::Error);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

// If the file is too large, the older one remains. (gguf_writer_test simulates a disk that becomes
// full midway.)
TEST(SaveGgufTest, WhereTheFileIsTooLargeTheOlderOneStays) {
  const ScratchFolder folder;
  const std::string path = folder.Write("x.gguf", "older");
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 10000;
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = SaveGguf(path, Qwen3Config(), Qwen3(), {});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_THAT(status, AllOf(Not(IsOk()), StatusIs(status.code(), HasSubstr(path))));
  EXPECT_EQ(ReadAll(path), "older");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace moonring::model
