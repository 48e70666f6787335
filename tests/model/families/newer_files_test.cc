// config.json written by Transformers 5.23 gives the same model as the file written by 4.57.6, for
// every family. (tests/golden/families/resave.py made these files, and checked that 5.23 has the
// losses of the golden files and writes the same tensors.)

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/autograd/parameter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/save_folder.h"
#include "model/families/families.h"
#include "model/families/parse_config.h"
#include "model/files/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::ReadAll;
using ::nlohmann::json;

constexpr char kGolden[] = "tests/golden/families/";
constexpr char kNewer[] = "/config-5.23.json";

// Returns the path of the weights as saved by 5.23: those of the golden model, unless 5.23 names or
// splits weights differently.
std::string NewerWeights(const std::string& folder) {
  const std::string own = folder + "/model-5.23.safetensors";
  return std::filesystem::exists(own) ? own : folder + "/model.safetensors";
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden)) {
    if (std::filesystem::exists(entry.path().native() + kNewer))
      names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Returns the rule as JSON, so that a failure shows the difference.
json Numbers(const RotaryRule& rule) {
  return {{"kind", RopeName(rule.kind)},
          {"theta", rule.theta},
          {"dim", rule.dim},
          {"interleaved", rule.interleaved},
          {"factor", rule.factor},
          {"attention_factor", rule.attention_factor},
          {"original_length", rule.original_length},
          {"low_freq_factor", rule.low_freq_factor},
          {"high_freq_factor", rule.high_freq_factor},
          {"beta_fast", rule.beta_fast},
          {"beta_slow", rule.beta_slow},
          {"truncate", rule.truncate},
          {"short_factor", rule.short_factor},
          {"long_factor", rule.long_factor}};
}

json Numbers(const ModelConfig& config) {
  json numbers = {
      {"architecture", config.architecture},
      {"model_type", config.model_type},
      {"vocab_size", config.vocab_size},
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"heads", config.heads},
      {"kv_heads", config.kv_heads},
      {"head_dim", config.head_dim},
      {"max_position_embeddings", config.max_position_embeddings},
      {"rms_norm_eps", config.rms_norm_eps},
      {"norm_adds_one", config.norm_adds_one},
      {"head_norm", static_cast<int>(config.head_norm)},
      {"gated_heads", config.gated_heads},
      {"tie_word_embeddings", config.tie_word_embeddings},
      {"qkv_bias", config.qkv_bias},
      {"output_bias", config.output_bias},
      {"mlp_bias", config.mlp_bias},
      {"activation", static_cast<int>(config.activation)},
      {"score_scale", config.score_scale},
      {"score_softcap", config.score_softcap},
      {"embedding_scale", config.embedding_scale},
      {"noise_after_scale", config.noise_after_scale},
      {"residual_scale", config.residual_scale},
      {"logit_scale", config.logit_scale},
      {"logit_softcap", config.logit_softcap},
      {"bos_token_id", config.bos_token_id.value_or(-1)},
      {"pad_token_id", config.pad_token_id.value_or(-1)},
      {"eos_token_ids", config.eos_token_ids},
      {"experts",
       {config.experts.count, config.experts.chosen, config.experts.intermediate,
        config.experts.shared, config.experts.width, config.experts.normalised}},
      {"delta",
       {config.delta.key_heads, config.delta.value_heads, config.delta.key_dim,
        config.delta.value_dim, config.delta.taps, config.delta.beta_scale, config.delta.norm_eps,
        config.delta.by_channel, config.delta.rank, static_cast<int>(config.delta.gate)}},
      {"state_space",
       {config.state_space.heads, config.state_space.head_dim, config.state_space.groups,
        config.state_space.states, config.state_space.taps, config.state_space.filter_bias,
        config.state_space.map_bias, config.state_space.least_step,
        std::isinf(config.state_space.most_step) ? -1 : config.state_space.most_step,
        config.state_space.norm_eps}},
      {"convolution", {config.convolution.taps, config.convolution.bias}}};
  for (const RotaryRule& rule : config.rotaries) numbers["rotaries"].push_back(Numbers(rule));
  for (const LayerRule& rule : config.layer_rules)
    numbers["layers"].push_back({rule.mixer == nullptr ? "" : rule.mixer->layers_fact, rule.window,
                                 rule.rotary, rule.mlp, rule.experts});
  return numbers;
}

class NewerFilesTest : public ::testing::TestWithParam<std::string> {};

TEST_P(NewerFilesTest, IsTheSameModel) {
  const std::string folder = kGolden + GetParam();
  const std::string text = ReadAll(folder + kNewer);
  EXPECT_EQ(json::parse(text)["transformers_version"], "5.23.0");
  ASSERT_OK_AND_ASSIGN(const ModelConfig older,
                       ParseConfig(ReadAll(folder + "/config.json"), folder));
  ASSERT_OK_AND_ASSIGN(const ModelConfig newer, ParseConfig(text, folder));
  EXPECT_EQ(json::diff(Numbers(older), Numbers(newer)), json::array());
}

TEST_P(NewerFilesTest, TheFolderOpens) {
  const std::string folder = kGolden + GetParam();
  const testing::ScratchFolder newer;
  std::ofstream(newer / "config.json") << ReadAll(folder + kNewer);
  std::filesystem::copy_file(NewerWeights(folder), newer / "model.safetensors");
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(newer.path()));
  EXPECT_THAT(checkpoint->extra_names(), ::testing::IsEmpty());
  ASSERT_OK_AND_ASSIGN(const auto before, Checkpoint::Open(folder));
  ASSERT_EQ(checkpoint->names(), before->names());
  for (const std::string& name : before->names()) {
    ASSERT_OK_AND_ASSIGN(const at::Tensor weight, checkpoint->Load(name, at::kFloat));
    ASSERT_OK_AND_ASSIGN(const at::Tensor wanted, before->Load(name, at::kFloat));
    EXPECT_TRUE(weight.equal(wanted)) << name;
  }
}

// A config that Moonring saves has the same meaning in Transformers 5, with its own keys, and in
// Transformers 4.
TEST_P(NewerFilesTest, SavedItIsTheSameModelForBoth) {
  const testing::ScratchFolder newer, saved;
  std::ofstream(newer / "config.json") << ReadAll(kGolden + GetParam() + kNewer);
  std::filesystem::copy_file(NewerWeights(kGolden + GetParam()), newer / "model.safetensors");
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(newer.path()));
  base::Parameters parameters;
  for (const std::string& name : checkpoint->names()) {
    ASSERT_OK_AND_ASSIGN(const at::Tensor weight, checkpoint->Load(name, at::kFloat));
    parameters.push_back(std::make_shared<base::Parameter>(name, weight.clone()));
  }
  ASSERT_OK(
      SaveFolder(saved.path(), checkpoint->config(), parameters, at::kFloat, {}, int64_t{1} << 30));
  json written = json::parse(ReadAll(saved / "config.json"));
  const json wanted = Numbers(checkpoint->config());
  EXPECT_EQ(json::diff(wanted, Numbers(*ParseConfig(written.dump(), "5"))), json::array());
  if (checkpoint->config().family->newer) return;  // Transformers 4 does not have it
  for (const auto& [later, older] : checkpoint->config().family->older_layer_types)
    EXPECT_THAT(written["layer_types"], ::testing::Not(::testing::Contains(later)));
  written.erase("rope_parameters");
  if (written.contains("text_config")) written["text_config"].erase("rope_parameters");
  if (written["model_type"] != "mixtral" && written["model_type"] != "granitemoehybrid")
    written.erase("num_local_experts");
  EXPECT_EQ(json::diff(wanted, Numbers(*ParseConfig(written.dump(), "4"))), json::array());
}

// Files with other weight names than those of Transformers' modules can be read too, and each model
// is saved with its original names.
TEST(NewerFilesTest, NamesThatCameStay) {
  const std::string folder = std::string(kGolden) + "nemotron_h";
  const auto in = [](const std::string& path, const std::string& start) {
    std::set<std::string> names;
    const std::shared_ptr<const SafetensorsFile> file = *SafetensorsFile::Open(path);
    for (const auto& [name, entry] : file->entries()) {
      if (name.starts_with(start)) names.insert(name.substr(start.size()));
    }
    return names;
  };
  ASSERT_OK_AND_ASSIGN(const auto published, Checkpoint::Open(folder));
  EXPECT_THAT(published->names(), ::testing::Contains("model.layers.0.mixer.in_proj.weight"));
  const std::set<std::string> wanted = in(folder + "/model.safetensors", "backbone.");
  ASSERT_EQ(wanted.size() + 1, published->names().size()) << "and the head";
  const auto save = [](const Checkpoint& checkpoint, const std::string& to, bool as_they_came) {
    base::Parameters parameters;
    for (const std::string& name : checkpoint.names()) {
      ASSERT_OK_AND_ASSIGN(const at::Tensor weight, checkpoint.Load(name, at::kFloat));
      parameters.push_back(std::make_shared<base::Parameter>(name, weight.clone()));
    }
    ASSERT_OK(SaveFolder(to, checkpoint.config(), parameters, at::kFloat, {}, int64_t{1} << 30,
                         Flush::kNow, as_they_came ? checkpoint.carried() : CarriedWeights()));
  };
  const testing::ScratchFolder again, renamed, renamed_again;
  save(*published, again.path(), true);
  EXPECT_EQ(in(again / "model.safetensors", "backbone."), wanted);
  save(*published, renamed.path(), false);
  EXPECT_EQ(in(renamed / "model.safetensors", "model."), wanted);
  ASSERT_OK_AND_ASSIGN(const auto newer, Checkpoint::Open(renamed.path()));
  EXPECT_THAT(newer->extra_names(), ::testing::IsEmpty());
  EXPECT_EQ(newer->names(), published->names());
  save(*newer, renamed_again.path(), true);
  EXPECT_EQ(in(renamed_again / "model.safetensors", "model."), wanted);

  // Numbers that Python writes although JSON lacks them are kept.
  std::string text = ReadAll(renamed / "config.json");
  text.insert(text.find('{') + 1, "\"a\": [-Infinity, {\"b\": NaN}], \"c\": \"\\\" Infinity\",");
  std::ofstream(renamed / "config.json") << text;
  ASSERT_OK_AND_ASSIGN(const auto unbound, Checkpoint::Open(renamed.path()));
  const testing::ScratchFolder unbound_again;
  save(*unbound, unbound_again.path(), true);
  text = ReadAll(unbound_again / "config.json");
  text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c == ' ' || c == '\n'; }),
             text.end());
  EXPECT_THAT(text, ::testing::HasSubstr("\"a\":[-Infinity,{\"b\":NaN}]"));
  EXPECT_THAT(text, ::testing::HasSubstr("\"c\":\"\\\"Infinity\""));
}

INSTANTIATE_TEST_SUITE_P(Models, NewerFilesTest, ::testing::ValuesIn(Names()),
                         [](const auto& info) { return info.param; });

TEST(NewerFilesTest, EachFamilyOfTransformersIsHere) {
  std::set<std::string> seen;
  for (const std::string& name : Names())
    seen.insert(json::parse(ReadAll(kGolden + name + kNewer))["model_type"]);
  // For families that 4.57.6 does not support, 5.23 wrote config.json itself.
  for (const auto& entry : std::filesystem::directory_iterator(kGolden)) {
    const std::string file = entry.path().native() + "/config.json";
    if (!std::filesystem::exists(file)) continue;
    const json config = json::parse(ReadAll(file));
    if (config.value("transformers_version", "") == "5.23.0") seen.insert(config["model_type"]);
  }
  for (const Family& family : Composites())
    EXPECT_TRUE(seen.contains(family.model_type)) << family.title;
  for (const Family& family : Families()) {
    const bool remote = family.model_type.starts_with("internlm");  // not in Transformers
    EXPECT_EQ(seen.contains(family.model_type), !remote) << family.title;
  }
}

}  // namespace
}  // namespace moonring::model
