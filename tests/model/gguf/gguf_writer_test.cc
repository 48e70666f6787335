#include "model/gguf/gguf_writer.h"

#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "ATen/ATen.h"
#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::ReadAll;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::StatusIs;
using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

json GoldenBlocks() { return json::parse(ReadAll("tests/golden/gguf/blocks.json")); }

std::string Bytes(const json& hex) { return absl::HexStringToBytes(hex.get<std::string>()); }

GgufTensorToWrite Tensor(const std::string& name, const char* type, const at::Tensor& numbers) {
  return {name, numbers.sizes().vec(), FindGgufType(type), {[numbers] { return numbers; }}};
}

absl::Status Write(const std::string& folder, const std::vector<GgufTensorToWrite>& tensors,
                   const GgufMetadata& metadata = {}) {
  auto files = StagedFiles::Create(folder);
  if (!files.ok()) return files.status();
  const absl::Status staged = StageGguf(*files, "x.gguf", metadata, tensors);
  return staged.ok() ? files->Commit() : staged;
}

// Blocks equal those of the gguf package byte by byte (tests/golden/gguf/make.py).
TEST(GgufWriterTest, BlocksAreTheReferences) {
  const json golden = GoldenBlocks();
  for (const char* name : {"F16", "BF16", "Q8_0"}) {
    const GgufType& type = *FindGgufType(name);
    ASSERT_GT(golden[name].size(), 20);
    for (const json& row : golden[name]) {
      const std::string in = Bytes(row["numbers"]);
      const int64_t numbers = static_cast<int64_t>(in.size() / sizeof(float));
      std::vector<float> floats(static_cast<size_t>(numbers));
      std::memcpy(floats.data(), in.data(), in.size());
      std::string out(static_cast<size_t>(numbers / type.elements * type.bytes), '\0');
      Quantise(type, floats.data(), numbers / type.elements, out.data());
      EXPECT_EQ(absl::BytesToHexString(out), row["bytes"].get<std::string>())
          << name << " of " << at::tensor(floats);
    }
  }
}

TEST(GgufWriterTest, WholeFileIsThePackages) {
  const ScratchFolder folder;
  GgufMetadata metadata;
  metadata.String("general.architecture", "llama");
  metadata.Int("llama.block_count", 2);
  metadata.Number("llama.rope.freq_base", 10000);
  metadata.Bool("tokenizer.ggml.add_bos_token", true);
  metadata.String("general.name", "caf\u00e9");
  metadata.Strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "", "b c"});
  metadata.Ints("tokenizer.ggml.token_type", {1, 3, -1});
  metadata.Numbers("tokenizer.ggml.scores", {0.5f, -1.0f});
  const at::Tensor numbers = at::arange(3 * 64, at::kFloat).view({3, 64}) / 8 - 10;
  std::vector<GgufTensorToWrite> tensors = {Tensor("odd", "F32", numbers[0].narrow(0, 0, 5))};
  for (const char* type : {"F16", "BF16", "Q8_0"}) tensors.push_back(Tensor(type, type, numbers));
  // The last tensor is written in pieces that have another dtype and are not contiguous.
  tensors.back().pieces.clear();
  for (int64_t row = 0; row < 3; ++row)
    tensors.back().pieces.push_back([=] { return numbers.t().to(at::kDouble).select(1, row); });
  ASSERT_OK(Write(folder.path(), tensors, metadata));
  const std::string written = ReadAll(folder / "x.gguf");
  EXPECT_EQ(absl::BytesToHexString(written), GoldenBlocks()["file"].get<std::string>());
  EXPECT_EQ(GgufBytes(metadata, tensors), written.size());
}

TEST(GgufWriterTest, RefusesWhatWouldBeNonFinite) {
  const ScratchFolder folder;
  const auto written = [&](const char* type, float number) {
    at::Tensor numbers = at::zeros({2, 32});
    numbers[1][3] = number;
    return Write(folder.path(), {Tensor("blk.0.ffn_up.weight", type, numbers)});
  };
  const auto refuses = [](const char* why) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("blk.0.ffn_up.weight: has numbers "), HasSubstr(why)));
  };
  for (const char* type : {"F32", "F16", "BF16", "Q8_0"}) {
    for (const float number : {std::nanf(""), kInfinity, -kInfinity})
      EXPECT_THAT(written(type, number), refuses("that are not finite")) << type;
  }
  EXPECT_OK(written("F16", -65504));
  EXPECT_THAT(written("F16", 65520), refuses("up to 65520, more than F16 holds: write it as bf16"));
  EXPECT_OK(written("Q8_0", 127 * 65504.0f));
  EXPECT_THAT(written("Q8_0", -127 * 65536.0f), refuses("more than Q8_0 holds: write it as f16"));
  EXPECT_OK(written("BF16", 3.38e38f));
  EXPECT_THAT(written("BF16", std::numeric_limits<float>::max()), refuses("more than BF16 holds"));
  EXPECT_OK(written("F32", std::numeric_limits<float>::max()));
}

// If the disk becomes full, the older file remains. A limit on file sizes simulates this: write(2)
// fails midway in the same way.
TEST(GgufWriterTest, AFullDiskLeavesTheOlderFile) {
  const ScratchFolder folder;
  const std::string path = folder.Write("x.gguf", "older");
  const std::vector<GgufTensorToWrite> tensors = {Tensor("w", "F32", at::zeros({100, 100}))};
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 10000;
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = Write(folder.path(), tensors);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_THAT(status, StatusIs(status.code(), HasSubstr(path + ": cannot be written")));
  EXPECT_EQ(ReadAll(path), "older");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(GgufWriterTest, RefusesOtherShapes) {
  const ScratchFolder folder;
  const at::Tensor numbers = at::zeros({2, 31});
  EXPECT_THROW(Write(folder.path(), {Tensor("w", "Q8_0", numbers)}).IgnoreError(), c10::Error);
  GgufTensorToWrite tensor = Tensor("w", "F32", numbers);
  tensor.shape = {2, 30};
  EXPECT_THROW(Write(folder.path(), {tensor}).IgnoreError(), c10::Error);
  GgufMetadata metadata;
  EXPECT_THROW(metadata.Int("llama.block_count", -1), c10::Error);
  EXPECT_THROW(metadata.Int("llama.block_count", int64_t{1} << 32), c10::Error);
}

}  // namespace
}  // namespace moonring::model
