// Vision-language models (tests/golden/families has one of each kind, from Transformers): weights
// that are not trained are copied to the saved folder byte for byte, under the names of the files.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "ATen/ATen.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/adapter.h"
#include "model/adapter_folder.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/save_folder.h"
#include "model/config/weights.h"
#include "model/files/safetensors.h"
#include "model/files/safetensors_writer.h"
#include "model/transformer.h"
#include "nlohmann/json.hpp"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

namespace fs = std::filesystem;

using ::moonring::testing::ReadAll;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::StatusIs;
using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kOneFile = int64_t{5} << 30;
constexpr char kText[] = "model.language_model.";

std::string GoldenFamily(const std::string& name) { return "tests/golden/families/" + name; }

using Tensors = std::map<std::string, at::Tensor>;

Tensors TensorsIn(const std::string& folder) {
  Tensors tensors;
  const auto store = SafetensorsFolder::Open(folder);
  EXPECT_OK(store);
  for (const auto& [name, weight] : (*store)->weights()) tensors[name] = *(*store)->Read(name);
  return tensors;
}

void WriteTensors(const std::string& folder, const Tensors& tensors) {
  std::vector<TensorToWrite> list;
  for (const auto& [name, tensor] : tensors) {
    list.push_back({name, tensor.sizes().vec(), tensor.scalar_type(),
                    [held = tensor.clone()] { return held; }});
  }
  ASSERT_OK(WriteSafetensors(folder + "/model.safetensors", list));
}

std::string Bytes(const at::Tensor& tensor) {
  const at::Tensor held = tensor.contiguous();
  return std::string(static_cast<const char*>(held.const_data_ptr()), held.nbytes());
}

bool IsText(const std::string& name) {
  return name.starts_with("language_model.") || name.starts_with(kText) ||
         name.starts_with("lm_head.");
}

// Writes a folder like a published model: the vision tower in bf16, with its processor's files.
void Publish(const std::string& golden, const std::string& folder) {
  Tensors tensors = TensorsIn(golden);
  for (auto& [name, tensor] : tensors) {
    if (!IsText(name)) tensor = tensor.to(at::kBFloat16);
  }
  WriteTensors(folder, tensors);
  std::ofstream(folder + "/config.json") << ReadAll(golden + "/config.json");
  for (const char* file : {"preprocessor_config.json", "processor_config.json",
                           "video_preprocessor_config.json", "chat_template.json"})
    std::ofstream(folder + "/" + file) << "{\"of\": \"" << file << "\"}";
}

base::Parameters ClonedParameters(const Checkpoint& checkpoint) {
  base::Parameters parameters;
  for (const std::string& name : checkpoint.names())
    parameters.push_back(
        std::make_shared<base::Parameter>(name, checkpoint.Load(name, at::kFloat)->clone()));
  return parameters;
}

absl::Status Save(const std::string& folder, const Checkpoint& from,
                  const base::Parameters& parameters, at::ScalarType dtype, int64_t shard_bytes) {
  return SaveFolder(folder, from.config(), parameters, dtype, from.companions(), shard_bytes,
                    Flush::kNow, from.carried());
}

class CompositeTest : public ::testing::TestWithParam<std::string> {};

TEST_P(CompositeTest, IsSavedWhole) {
  const ScratchFolder folder;
  Publish(GoldenFamily(GetParam()), folder.path());
  const Tensors before = TensorsIn(folder.path());
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(folder.path()));
  EXPECT_THAT(checkpoint->extra_names(), IsEmpty());
  const std::vector<std::string> names = checkpoint->names();
  for (const std::string& name : names) EXPECT_TRUE(IsText(name)) << name;
  EXPECT_EQ(names.size() + checkpoint->carried().tensors.size(), before.size());

  const base::Parameters parameters = ClonedParameters(*checkpoint);
  for (const auto& parameter : parameters) parameter->weight().add_(0.5);
  for (const int64_t shard_bytes : {kOneFile, int64_t{20000}}) {
    const std::string out = folder / ("out" + std::to_string(shard_bytes));
    ASSERT_OK(Save(out, *checkpoint, parameters, at::kBFloat16, shard_bytes));
    EXPECT_EQ(fs::exists(out + "/model.safetensors"), shard_bytes == kOneFile);
    const Tensors after = TensorsIn(out);
    ASSERT_EQ(after.size(), before.size());
    for (const auto& [name, tensor] : before) {
      ASSERT_TRUE(after.contains(name)) << name;
      // Weights that are never trained keep their dtype.
      const at::ScalarType dtype =
          name.ends_with("layer_scalar") ? tensor.scalar_type() : at::kBFloat16;
      EXPECT_EQ(after.at(name).scalar_type(), dtype) << name;
      const at::Tensor wanted = IsText(name) ? (tensor.to(at::kFloat) + 0.5).to(dtype) : tensor;
      EXPECT_EQ(Bytes(after.at(name)), Bytes(wanted)) << name;
    }
    json wanted = json::parse(checkpoint->config().json);
    for (const char* key : {"dtype", "torch_dtype"}) {
      for (json* part : {&wanted, &wanted["text_config"]}) {
        if (part->contains(key)) (*part)[key] = "bfloat16";
      }
    }
    EXPECT_EQ(json::diff(wanted, json::parse(ReadAll(out + "/config.json"))), json::array());
    ASSERT_OK_AND_ASSIGN(const auto again, Checkpoint::Open(out));
    EXPECT_EQ(again->names(), names);
    EXPECT_EQ(again->companions(), checkpoint->companions());
    EXPECT_EQ(again->companions().count("video_preprocessor_config.json"), 1u);
    EXPECT_EQ(again->config().tie_word_embeddings, checkpoint->config().tie_word_embeddings);
  }
}

// Vision weights can also be saved in fp32, and over the files from which they are read.
TEST_P(CompositeTest, IsSavedInPlace) {
  const ScratchFolder folder;
  Publish(GoldenFamily(GetParam()), folder.path());
  const Tensors before = TensorsIn(folder.path());
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(folder.path()));
  ASSERT_OK(Save(folder.path(), *checkpoint, ClonedParameters(*checkpoint), at::kFloat, kOneFile));
  for (const auto& [name, tensor] : TensorsIn(folder.path())) {
    EXPECT_EQ(tensor.scalar_type(), before.at(name).scalar_type()) << name;
    EXPECT_EQ(Bytes(tensor), Bytes(before.at(name))) << name;
  }
}

TEST_P(CompositeTest, GrowsItsTextHalf) {
  const ScratchFolder folder;
  Publish(GoldenFamily(GetParam()), folder.path());
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(folder.path()));
  const json before = json::parse(checkpoint->config().json);
  checkpoint->GrowVocabulary(50, /*seed=*/1);
  ASSERT_OK(checkpoint->EndWith(5));
  json wanted = before;
  wanted["text_config"]["vocab_size"] = 64;
  if (wanted["text_config"].contains("vocab_size_per_layer_input"))
    wanted["text_config"]["vocab_size_per_layer_input"] = 64;
  wanted["eos_token_id"] = 5;
  if (before["text_config"].contains("eos_token_id")) wanted["text_config"]["eos_token_id"] = 5;
  EXPECT_EQ(json::diff(wanted, json::parse(checkpoint->config().json)), json::array());
  ASSERT_OK(Save(folder / "out", *checkpoint, ClonedParameters(*checkpoint), at::kFloat, kOneFile));
  ASSERT_OK_AND_ASSIGN(const auto again, Checkpoint::Open(folder / "out"));
  EXPECT_EQ(again->config().vocab_size, 64);
  EXPECT_EQ(again->config().eos_token_ids, std::vector<int64_t>{5});
}

// Adapter targets match as in PEFT, by the whole module name: all linear layers of the language
// model and none of the vision tower, although some names end in the same way.
TEST_P(CompositeTest, AnAdapterIsOnTheTextAlone) {
  const ScratchFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(GoldenFamily(GetParam())));
  ASSERT_OK_AND_ASSIGN(const auto adapter, Adapter::Create(checkpoint->config(), {.rank = 2},
                                                           ClonedParameters(*checkpoint),
                                                           /*seed=*/1, at::kFloat));
  for (int time = 0; time < 2; ++time) {
    ASSERT_OK(SaveAdapter(folder.path(), *adapter, "base", {}));
    const json config = json::parse(ReadAll(folder / "adapter_config.json"));
    const std::regex pattern(config["target_modules"].get<std::string>());
    for (const auto& [module, low] : adapter->maps) {
      EXPECT_THAT(module, StartsWith(kText));
      EXPECT_TRUE(std::regex_match(module, pattern)) << module;
      EXPECT_EQ(low.a->name(), "base_model.model." + module + ".lora_A.weight");
    }
    for (const TensorToWrite& tensor : checkpoint->carried().tensors) {
      const std::string module = "model." + tensor.name.substr(0, tensor.name.rfind('.'));
      EXPECT_FALSE(std::regex_match(module, pattern)) << module;
    }
    ASSERT_OK_AND_ASSIGN(const auto again,
                         ReadAdapter(folder.path(), checkpoint->config(), at::kFloat, at::kCPU));
    EXPECT_EQ(again->maps.size(), adapter->maps.size());
    ASSERT_OK(SaveAdapter(folder.path(), *again, "base", {}));  // like a resumed run
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CompositeTest,
                         ::testing::Values("gemma3_vision", "gemma4_vision", "ministral3_vision",
                                           "mistral3", "qwen3_vl", "qwen3_vl_moe",
                                           "qwen3_5_vision"),
                         [](const auto& info) { return info.param; });

// Files with weights under Transformers' older or newer names can be read, and are saved under the
// same names.
TEST(CompositeNamesTest, BothKindsAreReadAndKept) {
  const ScratchFolder folder;
  Publish(GoldenFamily("mistral3"), folder.path());
  Tensors renamed;
  for (const auto& [name, tensor] : TensorsIn(folder.path())) {
    std::string other = name;
    if (name.starts_with("language_model.model."))
      other = kText + name.substr(std::string("language_model.model.").size());
    if (name.starts_with("language_model.lm_head.")) other = "lm_head.weight";
    renamed[other] = tensor.clone();
  }
  ASSERT_OK_AND_ASSIGN(const auto older, Checkpoint::Open(folder.path()));
  WriteTensors(folder.path(), renamed);
  ASSERT_OK_AND_ASSIGN(const auto newer, Checkpoint::Open(folder.path()));
  EXPECT_EQ(newer->names(), older->names());
  for (const std::string& name : newer->names())
    EXPECT_TRUE(at::equal(*newer->Load(name, at::kFloat), *older->Load(name, at::kFloat)));
  ASSERT_OK(Save(folder / "out", *newer, ClonedParameters(*newer), at::kFloat, kOneFile));
  for (const auto& [name, tensor] : TensorsIn(folder / "out"))
    EXPECT_EQ(Bytes(tensor), Bytes(renamed.at(name))) << name;
}

// If the two sections of config.json disagree about a tied head, the files decide.
TEST(CompositeNamesTest, AStoredHeadIsNotTied) {
  for (const bool stored : {false, true}) {
    const ScratchFolder folder;
    Publish(GoldenFamily("mistral3"), folder.path());
    Tensors tensors = TensorsIn(folder.path());
    if (!stored) tensors.erase("language_model.lm_head.weight");
    WriteTensors(folder.path(), tensors);
    json config = json::parse(ReadAll(folder / "config.json"));
    config["tie_word_embeddings"] = true;
    config["text_config"]["tie_word_embeddings"] = false;  // as Transformers 5.23 writes Mistral 3
    std::ofstream(folder / "config.json") << config.dump();
    ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(folder.path()));
    EXPECT_EQ(checkpoint->config().tie_word_embeddings, !stored);
    EXPECT_EQ(checkpoint->names().back() == "lm_head.weight", stored);
  }
}

// Qwen3-VL-MoE's experts can also be read as Transformers 5 saves them, not transposed.
TEST(CompositeNamesTest, ExpertsEitherWayRound) {
  const ScratchFolder folder;
  Publish(GoldenFamily("qwen3_vl_moe"), folder.path());
  ASSERT_OK_AND_ASSIGN(const auto published, Checkpoint::Open(folder.path()));
  EXPECT_EQ(published->config().experts.storage, ExpertStorage::kTransposedHalves);
  Tensors turned = TensorsIn(folder.path());
  for (auto& [name, tensor] : turned) {
    tensor = tensor.clone();
    if (name.find(".experts.") != std::string::npos) tensor = tensor.mT().contiguous();
  }
  WriteTensors(folder.path(), turned);
  ASSERT_OK_AND_ASSIGN(const auto saved, Checkpoint::Open(folder.path()));
  EXPECT_EQ(saved->config().experts.storage, ExpertStorage::kStacked);
  ASSERT_OK(Save(folder / "out", *saved, ClonedParameters(*saved), at::kFloat, kOneFile));
  for (const auto& [name, tensor] : TensorsIn(folder / "out"))
    EXPECT_EQ(Bytes(tensor), Bytes(turned.at(name))) << name;
}

// Weights that are never trained are saved in the dtype of their file, whatever the dtype of the
// other weights.
TEST(CompositeNamesTest, BuffersKeepTheirDtype) {
  for (const at::ScalarType own : {at::kBFloat16, at::kFloat}) {
    for (const at::ScalarType rest : {at::kBFloat16, at::kFloat, at::kDouble}) {
      const ScratchFolder folder;
      Publish(GoldenFamily("gemma4_vision"), folder.path());
      Tensors tensors = TensorsIn(folder.path());
      int scales = 0;
      for (auto& [name, tensor] : tensors) {
        tensor = name.ends_with("layer_scalar") ? tensor.to(own) : tensor.clone();
        scales += name.ends_with("layer_scalar");
      }
      ASSERT_GT(scales, 0);
      WriteTensors(folder.path(), tensors);
      ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(folder.path()));
      ASSERT_OK(Save(folder / "out", *checkpoint, ClonedParameters(*checkpoint), rest, kOneFile));
      for (const auto& [name, tensor] : TensorsIn(folder / "out")) {
        if (name.ends_with("layer_scalar")) {
          EXPECT_EQ(tensor.scalar_type(), own) << name;
          EXPECT_EQ(Bytes(tensor), Bytes(tensors.at(name))) << name;
        } else if (IsText(name)) {
          EXPECT_EQ(tensor.scalar_type(), rest) << name;
        }
      }
    }
  }
}

// A tied head that an adapter trains in full becomes a separate weight with the name that the files
// use.
TEST(CompositeNamesTest, AnAdapterMayUntieTheHead) {
  const ScratchFolder folder;
  Publish(GoldenFamily("gemma3_vision"), folder.path());
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(folder.path()));
  ASSERT_TRUE(checkpoint->config().tie_word_embeddings);
  ASSERT_OK_AND_ASSIGN(const auto adapter,
                       Adapter::Create(checkpoint->config(), {.rank = 2, .saved = {"lm_head"}},
                                       ClonedParameters(*checkpoint), /*seed=*/1, at::kFloat));
  ASSERT_OK_AND_ASSIGN(const auto merged, Transformer::Load(checkpoint, {}, {adapter}));
  ASSERT_OK(SaveFolder(folder / "out", merged->config(), merged->parameters(), at::kFloat,
                       checkpoint->companions(), kOneFile, Flush::kNow, checkpoint->carried()));
  EXPECT_EQ(TensorsIn(folder / "out").count("language_model.lm_head.weight"), 1u);
  const json config = json::parse(ReadAll(folder / "out/config.json"));
  EXPECT_EQ(config["tie_word_embeddings"], false);
  EXPECT_EQ(config["text_config"]["tie_word_embeddings"], false);
  ASSERT_OK_AND_ASSIGN(const auto again, Checkpoint::Open(folder / "out"));
  EXPECT_FALSE(again->config().tie_word_embeddings);
}

}  // namespace
}  // namespace moonring::model
