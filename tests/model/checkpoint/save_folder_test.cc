#include "model/checkpoint/save_folder.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "ATen/ATen.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/checkpoint/checkpoint.h"
#include "nlohmann/json.hpp"
#include "tests/model/gguf/gguf_writer.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

namespace fs = std::filesystem;

using ::moonring::testing::IsOk;
using ::moonring::testing::ReadAll;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::StatusIs;
using ::moonring::testing::TinyGguf;
using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kInOneFile = int64_t{5} << 30;

std::string GoldenModel(const std::string& name) { return "tests/golden/model/" + name; }

base::Parameters ParametersOf(const Checkpoint& checkpoint) {
  base::Parameters parameters;
  for (const std::string& name : checkpoint.names())
    parameters.push_back(
        std::make_shared<base::Parameter>(name, *checkpoint.Load(name, at::kFloat)));
  return parameters;
}

std::vector<std::string> FilesIn(const std::string& dir) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

void ExpectSameWeights(const Checkpoint& a, const Checkpoint& b) {
  EXPECT_EQ(a.names(), b.names());
  for (const std::string& name : a.names())
    EXPECT_TRUE(at::equal(*a.Load(name, at::kDouble), *b.Load(name, at::kDouble))) << name;
}

TEST(SaveFolderTest, WhatIsSavedIsLoaded) {
  for (const char* name : {"gqa_tied", "mha_untied", "sharded", "bf16"}) {
    for (const int64_t shard_bytes : {kInOneFile, int64_t{20000}}) {
      const ScratchFolder folder;
      ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(GoldenModel(name)));
      ASSERT_OK(SaveFolder(folder / "out", checkpoint->config(), ParametersOf(*checkpoint),
                           at::kFloat, {{"tokenizer.json", "{}"}}, shard_bytes));
      ASSERT_OK_AND_ASSIGN(const auto again, Checkpoint::Open(folder / "out"));
      ExpectSameWeights(*checkpoint, *again);
      EXPECT_EQ(again->companions().at("tokenizer.json"), "{}");
      EXPECT_EQ(fs::exists(folder / "out/model.safetensors"), shard_bytes == kInOneFile) << name;
      EXPECT_EQ(fs::exists(folder / "out/model.safetensors.index.json"), shard_bytes != kInOneFile)
          << name;
    }
  }
}

TEST(SaveFolderTest, ConfigKeepsEverythingButWhatChanged) {
  const ScratchFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(GoldenModel("rope_parameters")));
  ASSERT_OK(SaveFolder(folder.path(), checkpoint->config(), ParametersOf(*checkpoint),
                       at::kBFloat16, {}, kInOneFile));
  json wanted = json::parse(checkpoint->config().json);
  wanted["dtype"] = "bfloat16";
  wanted["rope_theta"] = wanted["rope_parameters"]["rope_theta"];
  EXPECT_EQ(json::parse(ReadAll(folder / "config.json")), wanted);
  ASSERT_OK_AND_ASSIGN(const auto again, Checkpoint::Open(folder.path()));
  EXPECT_EQ(again->config().rotaries[0].theta, checkpoint->config().rotaries[0].theta);
  const at::Tensor before = *checkpoint->Load("model.norm.weight", at::kFloat);
  EXPECT_TRUE(
      at::equal(*again->Load("model.norm.weight", at::kBFloat16), before.to(at::kBFloat16)));
}

TEST(SaveFolderTest, WritesAGgufAsAFolder) {
  const ScratchFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto gguf,
                       Checkpoint::Open(folder.Write("tiny.gguf", TinyGguf().Bytes())));
  ASSERT_OK(SaveFolder(folder / "out", gguf->config(), ParametersOf(*gguf), at::kFloat,
                       gguf->companions(), kInOneFile));
  ASSERT_OK_AND_ASSIGN(const auto again, Checkpoint::Open(folder / "out"));
  ExpectSameWeights(*gguf, *again);
  EXPECT_EQ(again->companions(), gguf->companions());
  EXPECT_THAT(FilesIn(folder / "out"),
              ElementsAre("config.json", "generation_config.json", "model.safetensors",
                          "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"));
}

// A model can be saved over the files that its weights are views of, and from shards to one file
// and back.
TEST(SaveFolderTest, ReplacesAnOlderModelInPlace) {
  const ScratchFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto first, Checkpoint::Open(GoldenModel("mha_untied")));
  ASSERT_OK(
      SaveFolder(folder.path(), first->config(), ParametersOf(*first), at::kFloat, {}, kInOneFile));
  ASSERT_OK_AND_ASSIGN(const auto loaded, Checkpoint::Open(folder.path()));
  const base::Parameters parameters = ParametersOf(*loaded);
  for (const auto& parameter : parameters) parameter->weight().add_(1);
  for (const int64_t shard_bytes : {int64_t{20000}, kInOneFile}) {
    ASSERT_OK(SaveFolder(folder.path(), loaded->config(), parameters, at::kFloat, {}, shard_bytes));
    ASSERT_OK_AND_ASSIGN(const auto again, Checkpoint::Open(folder.path()));
    for (const auto& parameter : parameters)
      EXPECT_TRUE(at::equal(*again->Load(parameter->name(), at::kFloat), parameter->weight()))
          << parameter->name();
  }
  EXPECT_THAT(FilesIn(folder.path()), ElementsAre("config.json", "model.safetensors"));
}

TEST(SaveFolderTest, RefusesParametersThatAreNotTheModels) {
  const ScratchFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(GoldenModel("gqa_tied")));
  const base::Parameters good = ParametersOf(*checkpoint);
  const auto save = [&](const base::Parameters& parameters) {
    return SaveFolder(folder / "out", checkpoint->config(), parameters, at::kFloat, {}, kInOneFile);
  };
  EXPECT_THROW(save({good.begin() + 1, good.end()}).IgnoreError(), c10::Error);
  base::Parameters more = good;
  more.push_back(std::make_shared<base::Parameter>("lm_head.weight", at::ones({2, 2})));
  EXPECT_THROW(save(more).IgnoreError(), c10::Error);
  base::Parameters misshapen = good;
  misshapen[0] = std::make_shared<base::Parameter>(good[0]->name(), at::ones({2, 2}));
  EXPECT_THROW(save(misshapen).IgnoreError(), c10::Error);
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(SaveFolderTest, SaysWhereItCannotWrite) {
  const ScratchFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(GoldenModel("gqa_tied")));
  const auto save = [&](const std::string& dir) {
    return SaveFolder(dir, checkpoint->config(), ParametersOf(*checkpoint), at::kFloat, {},
                      kInOneFile);
  };
  const std::string file = folder.Write("file", "x");
  EXPECT_THAT(save(file + "/out"),
              AllOf(Not(IsOk()), StatusIs(save(file + "/out").code(),
                                          HasSubstr(file + "/out: the folder cannot be made"))));
  EXPECT_THAT(save("/proc/out"), Not(IsOk()));
}

// If the disk becomes full, the older model remains. A limit on file sizes simulates this: write(2)
// fails midway in the same way.
TEST(SaveFolderTest, AFullDiskLeavesTheOlderModel) {
  const ScratchFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(GoldenModel("gqa_tied")));
  base::Parameters parameters = ParametersOf(*checkpoint);
  ASSERT_OK(
      SaveFolder(folder.path(), checkpoint->config(), parameters, at::kFloat, {}, kInOneFile));
  for (auto& parameter : parameters)
    parameter = std::make_shared<base::Parameter>(parameter->name(), parameter->weight() + 1);

  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 10000;
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status =
      SaveFolder(folder.path(), checkpoint->config(), parameters, at::kFloat, {}, kInOneFile);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);

  EXPECT_THAT(status, AllOf(Not(IsOk()),
                            StatusIs(status.code(),
                                     HasSubstr(folder / "model.safetensors: cannot be written"))));
  ASSERT_OK_AND_ASSIGN(const auto again, Checkpoint::Open(folder.path()));
  ExpectSameWeights(*checkpoint, *again);
  EXPECT_THAT(FilesIn(folder.path()), ElementsAre("config.json", "model.safetensors"));
}

}  // namespace
}  // namespace moonring::model
