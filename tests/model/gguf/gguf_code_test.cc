// Quantized blocks of GGUF files as weights that stay packed: each type is compared with the values
// that Read returns; and for models, which weights can stay packed in Read's order of rows.

#include "model/gguf/gguf_code.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/packed/weight_code.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_model.h"
#include "model/gguf/gguf_types.h"
#include "nlohmann/json.hpp"
#include "tests/model/gguf/gguf_writer.h"
#include "tests/testing/all_close.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::GgufWriter;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::StatusIs;
using ::nlohmann::json;
using ::testing::HasSubstr;

constexpr uint32_t kQ4_0 = 2, kQ8_0 = 8;

absl::StatusOr<std::shared_ptr<const GgufFile>> OpenWritten(const GgufWriter& writer) {
  const ScratchFolder folder;
  return GgufFile::Open(folder.Write("x.gguf", writer.Bytes()));
}

// Blocks of every type, made by gguf-py, equal the values that are read; there are enough blocks
// for several threads.
TEST(GgufCodeTest, EveryTypeIsWhatIsRead) {
  const json golden =
      json::parse(moonring::testing::ReadAll("tests/model/gguf/gguf_types_golden.json"));
  ASSERT_EQ(golden.size(), 13);
  at::set_num_threads(2);
  for (const auto& [name, wanted] : golden.items()) {
    SCOPED_TRACE(name);
    const std::string blocks = absl::HexStringToBytes(wanted["blocks"].get<std::string>()),
                      values = absl::HexStringToBytes(wanted["values"].get<std::string>());
    const uint64_t elements = values.size() / sizeof(float), rows = 100000 / elements + 1;
    std::string many;
    for (uint64_t i = 0; i < rows; ++i) many += blocks;
    const uint32_t id = wanted["id"].get<uint32_t>();
    GgufWriter writer;
    writer.Tensor("w", {rows, elements}, id, many);
    ASSERT_OK_AND_ASSIGN(const auto file, OpenWritten(writer));
    ASSERT_OK_AND_ASSIGN(const at::Tensor read, file->Read("w"));
    ASSERT_OK_AND_ASSIGN(const at::Tensor stored, file->ReadBlocks("w"));
    EXPECT_EQ(stored.sizes(), at::IntArrayRef({read.size(0), stored.size(1)}));
    const GgufCode code(*FindGgufType(id));
    EXPECT_EQ(code.name(), name);
    EXPECT_EQ(code.PackedBytes(read.sizes()), many.size());
    const kernels::PackedWeight packed{{stored.view({-1})}, read.sizes().vec()};
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      at::Tensor out = at::empty(read.sizes(), dtype);
      code.Unpack(packed, out);
      EXPECT_TRUE(BitEqual(out, read.to(dtype))) << dtype;
    }
  }
}

TEST(GgufCodeTest, RefusesWhatItIsNot) {
  const GgufCode code(*FindGgufType(kQ8_0));
  EXPECT_THAT(code.Pack(at::ones({2, 32})),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("Q8_0: weights are not packed into it")));
  EXPECT_THROW(code.PackedBytes({2, 33}), c10::Error);
  at::Tensor out = at::empty({2, 32});
  EXPECT_THROW(code.Unpack({{at::zeros({67}, at::kByte)}, {2, 32}}, out), c10::Error);
  EXPECT_THROW(GgufCode(*FindGgufType(0)), c10::Error) << "F32 has no blocks";
}

// Returns blocks of random bytes, which begin with the type's fp16 scale.
std::string Blocks(uint32_t type_id, uint64_t elements) {
  const GgufType& type = *FindGgufType(type_id);
  const int64_t blocks = static_cast<int64_t>(elements) / type.elements;
  at::Tensor bytes = at::randint(0, 256, {blocks, type.bytes}, at::kByte);
  bytes.select(1, 1).fill_(0x2c);  // scales from 2^-4 to 2^-3
  return std::string(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes());
}

void AddBlocks(GgufWriter& writer, const std::string& name, const std::vector<uint64_t>& shape,
               uint32_t type = kQ8_0) {
  uint64_t count = 1;
  for (const uint64_t size : shape) count *= size;
  writer.Tensor(name, shape, type, Blocks(type, count));
}

void AddRandom(GgufWriter& writer, const std::string& name, const std::vector<uint64_t>& shape) {
  uint64_t count = 1;
  for (const uint64_t size : shape) count *= size;
  const at::Tensor numbers = at::randn({static_cast<int64_t>(count)});
  const float* data = numbers.const_data_ptr<float>();
  writer.FloatTensor(name, shape, {data, data + count});
}

using SizesByName = std::vector<std::pair<std::string, uint32_t>>;

// A model with one layer of width 64, with 4 query heads of dim 16 and 2 kv heads. `values`: the
// type of the value weights. With experts it has 3, otherwise a dense feed-forward of width 96.
GgufWriter Model(const std::string& architecture, uint32_t values, const SizesByName& more = {}) {
  at::manual_seed(21);
  GgufWriter writer;
  writer.String("general.architecture", architecture);
  SizesByName sizes = {{"block_count", 1},           {"context_length", 64},
                       {"embedding_length", 64},     {"feed_forward_length", 96},
                       {"attention.head_count", 4},  {"attention.head_count_kv", 2},
                       {"rope.dimension_count", 16}, {"vocab_size", 12}};
  sizes.insert(sizes.end(), more.begin(), more.end());
  for (const auto& [key, value] : sizes) writer.U32(architecture + "." + key, value);
  writer.F32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  writer.F32(architecture + ".rope.freq_base", 10000.0f);
  AddBlocks(writer, "token_embd.weight", {12, 64});
  AddRandom(writer, "output_norm.weight", {64});
  AddBlocks(writer, "output.weight", {12, 64});
  AddRandom(writer, "blk.0.attn_norm.weight", {64});
  AddBlocks(writer, "blk.0.attn_q.weight", {64, 64});
  AddBlocks(writer, "blk.0.attn_k.weight", {32, 64});
  AddBlocks(writer, "blk.0.attn_v.weight", {32, 64}, values);
  AddBlocks(writer, "blk.0.attn_output.weight", {64, 64});
  AddRandom(writer, "blk.0.ffn_norm.weight", {64});
  if (more.empty()) {
    for (const char* map : {"ffn_gate", "ffn_up"})
      AddBlocks(writer, std::string("blk.0.") + map + ".weight", {96, 64});
    AddBlocks(writer, "blk.0.ffn_down.weight", {64, 96}, kQ4_0);
    return writer;
  }
  for (const char* norm : {"attn_q_norm", "attn_k_norm"})
    AddRandom(writer, std::string("blk.0.") + norm + ".weight", {16});
  AddRandom(writer, "blk.0.ffn_gate_inp.weight", {3, 64});
  for (const char* map : {"ffn_gate_exps", "ffn_up_exps"})
    AddBlocks(writer, std::string("blk.0.") + map + ".weight", {3, 32, 64});
  AddBlocks(writer, "blk.0.ffn_down_exps.weight", {3, 64, 32}, kQ4_0);
  return writer;
}

// Expects that each weight that stays packed equals the one that Read returns, in both dtypes.
// Returns the number of these weights.
int ExpectPackedAsRead(const GgufModel& model) {
  int packed = 0;
  for (const auto& [name, stored] : model.weights()) {
    const std::shared_ptr<const kernels::WeightCode> code = model.CodeOf(name);
    if (code == nullptr) {
      EXPECT_THAT(model.ReadPacked(name),
                  StatusIs(absl::StatusCode::kUnimplemented,
                           HasSubstr(name + " in " + stored.dtype + " cannot stay packed")));
      continue;
    }
    EXPECT_EQ(code->name(), stored.dtype) << name;
    const at::Tensor read = model.Read(name).value();
    const kernels::PackedWeight weight = model.ReadPacked(name).value();
    EXPECT_EQ(weight.shape, stored.shape) << name;
    EXPECT_EQ(weight.parts.size(), 1);
    EXPECT_EQ(weight.parts[0].numel(), code->PackedBytes(weight.shape)) << name;
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      at::Tensor out = at::empty(weight.shape, dtype);
      code->Unpack(weight, out);
      EXPECT_TRUE(BitEqual(out, read.to(dtype))) << name;
    }
    packed += 1;
  }
  return packed;
}

absl::StatusOr<std::unique_ptr<GgufModel>> OpenWrittenModel(const GgufWriter& writer) {
  auto file = OpenWritten(writer);
  if (!file.ok()) return file.status();
  return GgufModel::Open(*file);
}

// Packed weights work for q and k, whose rows are stored in another order.
TEST(GgufCodeTest, RowsOfHeads) {
  ASSERT_OK_AND_ASSIGN(const auto model, OpenWrittenModel(Model("llama", kQ4_0)));
  EXPECT_EQ(ExpectPackedAsRead(*model), 9);
  const std::string query = "model.layers.0.self_attn.q_proj.weight";
  ASSERT_OK_AND_ASSIGN(const kernels::PackedWeight packed, model->ReadPacked(query));
  ASSERT_OK_AND_ASSIGN(const at::Tensor stored, model->file().ReadBlocks("blk.0.attn_q.weight"));
  EXPECT_FALSE(at::equal(packed.parts[0], stored.view({-1})));
  EXPECT_EQ(model->CodeOf("model.norm.weight"), nullptr);
  EXPECT_EQ(model->CodeOf("nobody"), nullptr);
}

// A weight that consists of queries, keys and values stays packed if their types are equal.
TEST(GgufCodeTest, OneMapOfThree) {
  const std::string fused = "model.layers.0.attention.wqkv.weight";
  ASSERT_OK_AND_ASSIGN(const auto model, OpenWrittenModel(Model("internlm2", kQ8_0)));
  EXPECT_NE(model->CodeOf(fused), nullptr);
  EXPECT_EQ(ExpectPackedAsRead(*model), 7);
  ASSERT_OK_AND_ASSIGN(const auto mixed, OpenWrittenModel(Model("internlm2", kQ4_0)));
  EXPECT_EQ(mixed->CodeOf(fused), nullptr) << "of two types";
  EXPECT_EQ(ExpectPackedAsRead(*mixed), 6);
}

TEST(GgufCodeTest, Experts) {
  ASSERT_OK_AND_ASSIGN(const auto model, OpenWrittenModel(Model("qwen3moe", kQ8_0,
                                                                {{"expert_count", 3},
                                                                 {"expert_used_count", 2},
                                                                 {"expert_feed_forward_length", 32},
                                                                 {"attention.key_length", 16},
                                                                 {"attention.value_length", 16}})));
  EXPECT_EQ(ExpectPackedAsRead(*model), 6 + 9);
}

// In a published file, all matrices stay packed.
TEST(GgufCodeTest, SmolLm2) {
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::Open(std::getenv("SMOLLM2_GGUF")));
  ASSERT_OK_AND_ASSIGN(const auto model, GgufModel::Open(file));
  int matrices = 0;
  for (const auto& [name, stored] : model->weights()) matrices += stored.shape.size() == 2;
  EXPECT_EQ(ExpectPackedAsRead(*model), matrices);
  EXPECT_GT(matrices, 200);
}

}  // namespace
}  // namespace moonring::model
