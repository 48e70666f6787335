// Initial weights made from a config alone, compared with the moments (mean and deviation) of
// Transformers' initial weights (tests/golden/fresh_weights) for each weight of every family, and
// with closed forms.
//
// Both moments are estimated from samples. The tolerance is five standard errors of the difference
// of two estimates from n and m values: s sqrt(1 / n + 1 / m) for a mean, where s is the deviation,
// and s sqrt(k (1 / n + 1 / m)) for a deviation, where k = (kurtosis - 1) / 4 is 1/2 for a normal
// distribution and 2 for log A; 2 is used. Seeds are fixed, so all runs give the same numbers.
#include "model/checkpoint/fresh_weights.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/checkpoint/checkpoint.h"
#include "model/config/family.h"
#include "model/families/families.h"
#include "model/transformer.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::ScratchFolder;
using ::moonring::testing::StatusIs;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kFamilies[] = "tests/golden/families/";
constexpr int kSeeds = 48;

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

const json& GoldenMoments() {
  static const auto& golden =
      *new json(json::parse(ReadText("tests/golden/fresh_weights/moments.json")));
  return golden;
}

std::string Pattern(const std::string& name) {
  return std::regex_replace(name, std::regex("\\.\\d+(?=\\.)"), ".%");
}

// Returns the name of a weight in Transformers' file, which differs for some weights.
std::string SavedName(const Family& family, const std::string& name, const json& saved) {
  if (saved.contains(name)) return name;
  for (const auto& [module, resaved] : family.resaved_modules) {
    const size_t at = name.find(module);
    if (at != std::string::npos) return std::string(name).replace(at, module.size(), resaved);
  }
  return std::regex_replace(name, std::regex("^model\\."), "backbone.");
}

struct Moments {
  double n = 0, mean = 0, deviation = 0, least = 0, most = 0, outside = 0;
};

// Returns the moments of all values, except those of one row that is zero.
Moments MomentsOf(const std::vector<at::Tensor>& tables, const json& zero_row) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& table : tables) {
    if (zero_row.is_null()) {
      parts.push_back(table.flatten());
      continue;
    }
    const int64_t row = zero_row;
    EXPECT_TRUE(table.select(0, row).eq(0).all().item<bool>()) << "row " << row;
    parts.push_back(table.narrow(0, 0, row).flatten());
    parts.push_back(table.narrow(0, row + 1, table.size(0) - row - 1).flatten());
  }
  const at::Tensor values = at::cat(parts).to(at::kDouble);
  const double mean = values.mean().item<double>(),
               deviation = values.std(0, /*unbiased=*/false).item<double>();
  return {.n = static_cast<double>(values.numel()),
          .mean = mean,
          .deviation = deviation,
          .least = values.min().item<double>(),
          .most = values.max().item<double>(),
          .outside = (values - mean).abs().gt(deviation).to(at::kDouble).mean().item<double>()};
}

void ExpectSame(const Moments& ours, const json& theirs) {
  const double n = ours.n, m = theirs.at("n"), s = theirs.at("deviation"), mean = theirs.at("mean"),
               either = 1 / n + 1 / m;
  if (theirs.at("least") == theirs.at("most")) {
    EXPECT_EQ(ours.least, theirs.at("least").get<double>());
    EXPECT_EQ(ours.most, theirs.at("most").get<double>());
    return;
  }
  EXPECT_LT(ours.least, ours.most);
  EXPECT_NEAR(ours.mean, mean, 5 * s * std::sqrt(either));
  EXPECT_NEAR(ours.deviation, s, 5 * s * std::sqrt(2 * either));
  const double part = theirs.at("outside");
  EXPECT_NEAR(ours.outside, part, 5 * std::sqrt(part * (1 - part) * either) + 1e-9);
}

// One model per family, by its folder in kFamilies.
constexpr const char* kModels[] = {"deepseek_v3", "gemma",       "gemma2",
                                   "gemma3",      "gemma4_moe",  "gemma4_shared",
                                   "glm",         "glm4",        "glm4_moe",
                                   "gpt_oss",     "granite",     "granite_hybrid",
                                   "internlm3",   "kimi_linear", "lfm2",
                                   "llama_bias",  "ministral3",  "mistral_window",
                                   "mixtral",     "nemotron_h",  "nemotron_h_experts",
                                   "olmo2",       "olmo3",       "olmo_hybrid",
                                   "phi3",        "qwen2",       "qwen2_moe",
                                   "qwen3",       "qwen3_5",     "qwen3_5_moe",
                                   "qwen3_moe",   "qwen3_next",  "seed_oss",
                                   "smollm3"};

class MomentsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(MomentsTest, AreTransformers) {
  const json& theirs = GoldenMoments().at(GetParam());
  const Family* family = nullptr;
  std::map<std::string, std::vector<at::Tensor>> drawn;
  for (int seed = 0; seed < kSeeds; ++seed) {
    ASSERT_OK_AND_ASSIGN(const auto fresh,
                         Checkpoint::OpenFresh(std::string(kFamilies) + GetParam(), seed));
    family = fresh->config().family;
    for (const std::string& name : fresh->names()) {
      ASSERT_OK_AND_ASSIGN(at::Tensor values, fresh->Load(name, at::kFloat));
      drawn[Pattern(name)].push_back(std::move(values));
    }
  }
  for (const auto& [name, tables] : drawn) {
    SCOPED_TRACE(name);
    const std::string saved = SavedName(*family, name, theirs);
    ASSERT_TRUE(theirs.contains(saved)) << saved;
    ExpectSame(MomentsOf(tables, theirs.at(saved).at("zero_row")), theirs.at(saved));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MomentsTest, ::testing::ValuesIn(kModels),
                         [](const auto& info) { return info.param; });

TEST(FreshWeightsTest, EveryFamilyHasGoldenMoments) {
  std::set<std::string> families;
  EXPECT_EQ(GoldenMoments().size(), std::size(kModels));
  for (const char* model : kModels) {
    ASSERT_OK_AND_ASSIGN(const auto fresh,
                         Checkpoint::OpenFresh(std::string(kFamilies) + model, 0));
    families.insert(fresh->config().family->architecture);
  }
  for (const Family& family : Families()) {
    if (family.architecture == "InternLM2ForCausalLM") continue;  // Transformers does not have it
    EXPECT_TRUE(family.composite() || families.contains(family.architecture))
        << family.architecture;
  }
}

json ConfigOf(const std::string& model) {
  return json::parse(ReadText(kFamilies + model + "/config.json"));
}

// Weights have the moments of a normal distribution, with some 300,000 values.
TEST(FreshWeightsTest, IsNormal) {
  ScratchFolder folder;
  json config = ConfigOf("qwen2");
  config["initializer_range"] = 0.5;
  config["hidden_size"] = 400;
  config["intermediate_size"] = 801;  // 320,400 values
  folder.Write("config.json", config.dump());
  ASSERT_OK_AND_ASSIGN(const auto fresh, Checkpoint::OpenFresh(folder.path(), 1));
  ASSERT_OK_AND_ASSIGN(const at::Tensor up,
                       fresh->Load("model.layers.1.mlp.up_proj.weight", at::kDouble));
  const at::Tensor z = up.flatten() / 0.5;
  const double n = static_cast<double>(z.numel());
  EXPECT_NEAR(z.mean().item<double>(), 0.0, 4 / std::sqrt(n));
  EXPECT_NEAR(z.pow(2).mean().item<double>(), 1.0, 4 * std::sqrt(2 / n));
  EXPECT_NEAR(z.pow(3).mean().item<double>(), 0.0, 4 * std::sqrt(15 / n));
  EXPECT_NEAR(z.pow(4).mean().item<double>(), 3.0, 4 * std::sqrt(96 / n));
  for (const double bound : {0.5, 1.0, 2.0, 3.0}) {
    const double part = std::erfc(bound / std::sqrt(2.0));
    EXPECT_NEAR(z.abs().gt(bound).to(at::kDouble).mean().item<double>(), part,
                4 * std::sqrt(part / n))
        << bound;
  }
  // Adjacent values, values of adjacent pairs, and rows are uncorrelated.
  for (const int64_t shift : {1, 2, 400}) {
    const int64_t pairs = z.numel() - shift;
    EXPECT_NEAR((z.narrow(0, 0, pairs) * z.narrow(0, shift, pairs)).mean().item<double>(), 0.0,
                4 / std::sqrt(n))
        << shift;
  }
  ASSERT_OK_AND_ASSIGN(const at::Tensor gate,
                       fresh->Load("model.layers.1.mlp.gate_proj.weight", at::kDouble));
  EXPECT_NEAR((z * gate.flatten() / 0.5).mean().item<double>(), 0.0, 4 / std::sqrt(n));
}

// Decay rates are uniform and time steps log-uniform, within the limits in config.json.
TEST(FreshWeightsTest, DecaysAreByTheConfig) {
  ScratchFolder folder;
  json config = ConfigOf("olmo_hybrid");
  config.update({{"linear_a_log_min", 2.0},
                 {"linear_a_log_max", 3.0},
                 {"linear_dt_min", 1e-4},
                 {"linear_dt_max", 1e-2},
                 {"linear_dt_init_floor", 1e-3}});
  folder.Write("config.json", config.dump());
  std::vector<at::Tensor> rates, steps;
  for (int seed = 0; seed < 400; ++seed) {
    ASSERT_OK_AND_ASSIGN(const auto fresh, Checkpoint::OpenFresh(folder.path(), seed));
    for (const std::string& name : fresh->names()) {
      ASSERT_OK_AND_ASSIGN(const at::Tensor values, fresh->Load(name, at::kDouble));
      if (name.ends_with(".A_log")) rates.push_back(values.exp().flatten());
      if (name.ends_with(".dt_bias")) steps.push_back(at::softplus(values).log10().flatten());
    }
  }
  const at::Tensor rate = at::cat(rates), step = at::cat(steps);
  const double n = static_cast<double>(rate.numel());
  ASSERT_GE(n, 1000);
  EXPECT_GE(rate.min().item<double>(), 2.0 - 1e-6);
  EXPECT_LE(rate.max().item<double>(), 3.0 + 1e-6);
  EXPECT_NEAR(rate.mean().item<double>(), 2.5, 4 / std::sqrt(12 * n));
  EXPECT_NEAR(rate.std().item<double>(), 1 / std::sqrt(12.0), 4 * 0.3 / std::sqrt(n));
  EXPECT_NEAR(step.min().item<double>(), -3.0, 1e-5);  // half of them are raised to the lower limit
  EXPECT_LE(step.max().item<double>(), -2.0 + 1e-5);
  EXPECT_NEAR(step.lt(-3.0 + 1e-5).to(at::kDouble).mean().item<double>(), 0.5,
              4 * 0.5 / std::sqrt(n));
}

// The values depend only on the seed and the weight's name; no weight file is read.
TEST(FreshWeightsTest, DependsOnSeedAndName) {
  ScratchFolder folder;
  folder.Write("a/config.json", ConfigOf("qwen2").dump());
  folder.Write("b/config.json", ConfigOf("qwen2").dump());
  folder.Write("b/model.safetensors", "not one");
  ASSERT_OK_AND_ASSIGN(const auto a, Checkpoint::OpenFresh(folder.path() + "/a", 3));
  ASSERT_OK_AND_ASSIGN(const auto b, Checkpoint::OpenFresh(folder.path() + "/b", 3));
  ASSERT_OK_AND_ASSIGN(const auto other, Checkpoint::OpenFresh(folder.path() + "/a", 4));
  std::vector<std::string> names = a->names();
  std::reverse(names.begin(), names.end());
  std::vector<at::Tensor> seen;
  for (const std::string& name : names) {
    ASSERT_OK_AND_ASSIGN(const at::Tensor x, a->Load(name, at::kFloat));
    ASSERT_OK_AND_ASSIGN(const at::Tensor y, b->Load(name, at::kFloat));
    ASSERT_OK_AND_ASSIGN(const at::Tensor z, other->Load(name, at::kFloat));
    EXPECT_TRUE(at::equal(x, y)) << name;
    const bool constant = at::equal(x.min(), x.max());
    EXPECT_EQ(at::equal(x, z), constant) << name;
    for (const at::Tensor& before : seen) {
      EXPECT_FALSE(!constant && x.sizes() == before.sizes() && at::equal(x, before)) << name;
    }
    seen.push_back(x);
  }
  EXPECT_TRUE(a->extra_names().empty());
  ASSERT_OK_AND_ASSIGN(const auto model, Transformer::Load(a, {}));
  EXPECT_EQ(model->parameters().size(), names.size());
}

TEST(FreshWeightsTest, RefusesWhatItCannotMake) {
  ScratchFolder folder;
  const auto error = [&](const std::string& key, const json& value,
                         const std::string& model = "qwen2") {
    json config = ConfigOf(model);
    config[key] = value;
    folder.Write("config.json", config.dump());
    return Checkpoint::OpenFresh(folder.path(), 1).status();
  };
  EXPECT_THAT(error("initializer_range", 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("config.json: initializer_range: expected a number above 0")));
  EXPECT_THAT(error("linear_a_log_max", 0.0, "olmo_hybrid"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("linear_a_log_max: rates from 0 to 0, expected")));
  EXPECT_THAT(error("linear_dt_min", 0.0, "olmo_hybrid"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("linear_dt_init_floor: steps from 0 to 0.1, at least 0.0001")));
  EXPECT_THAT(
      Checkpoint::OpenFresh(std::string(kFamilies) + "gemma3_vision", 1).status(),
      StatusIs(absl::StatusCode::kUnimplemented,
               AllOf(HasSubstr("Gemma3ForConditionalGeneration"),
                     HasSubstr("no fresh weights for a model of which only the text model"))));
  EXPECT_THAT(Checkpoint::OpenFresh(folder.path() + "/none", 1).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no folder or file")));
  folder.Write("empty/tokenizer.json", "{}");
  EXPECT_THAT(
      Checkpoint::OpenFresh(folder.path() + "/empty", 1).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected a folder that has one")));
}

}  // namespace
}  // namespace moonring::model
