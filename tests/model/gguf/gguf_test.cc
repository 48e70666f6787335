#include "model/gguf/gguf.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/weights.h"
#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_model.h"
#include "model/gguf/gguf_tokenizer.h"
#include "model/mixers/mixers.h"
#include "nlohmann/json.hpp"
#include "tests/model/gguf/gguf_writer.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::GgufString;
using ::moonring::testing::GgufWriter;
using ::moonring::testing::IsOk;
using ::moonring::testing::Raw;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::StatusIs;
using ::moonring::testing::TinyGguf;
using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

absl::StatusOr<std::shared_ptr<const GgufFile>> Open(const std::string& bytes) {
  const ScratchFolder folder;
  return GgufFile::Open(folder.Write("x.gguf", bytes));
}

absl::StatusOr<std::unique_ptr<GgufModel>> OpenModel(const GgufWriter& writer) {
  auto file = Open(writer.Bytes());
  if (!file.ok()) return file.status();
  return GgufModel::Open(*file);
}

TEST(GgufTest, ReadsMetadata) {
  for (const uint32_t version : {2, 3}) {
    GgufWriter writer;
    writer.set_version(version);
    writer.U32("u", 7);
    writer.F32("f", 0.5f);
    writer.Bool("b", true);
    writer.String("s", "text");
    writer.Strings("list", {"", "a", "bc"});
    writer.Ints("ints", {-1, 2});
    writer.Floats("floats", {0.5f, -2.0f});
    writer.Add("big", GgufWriter::kU64, Raw<uint64_t>(~0ull));
    ASSERT_OK_AND_ASSIGN(const auto file, Open(writer.Bytes()));
    EXPECT_EQ(*file->Int("u"), 7);
    EXPECT_EQ(*file->Number("f"), 0.5);
    EXPECT_EQ(*file->Number("u"), 7);
    EXPECT_EQ(*file->Bool("b"), true);
    EXPECT_EQ(*file->String("s"), "text");
    EXPECT_THAT(*file->Strings("list"), ElementsAre("", "a", "bc"));
    EXPECT_THAT(*file->Ints("ints"), ElementsAre(-1, 2));
    EXPECT_THAT(*file->Numbers("ints"), ElementsAre(-1, 2));
    EXPECT_THAT(*file->Numbers("floats"), ElementsAre(0.5, -2));
    EXPECT_THAT(file->Numbers("list"), StatusIs(kInvalid, HasSubstr("an array of numbers")));
    EXPECT_THAT(file->Int("nobody"),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("x.gguf: nobody: missing")));
    EXPECT_THAT(file->Int("s"),
                StatusIs(kInvalid, HasSubstr("x.gguf: s: expected one whole number")));
    EXPECT_THAT(file->Int("big"), StatusIs(kInvalid, HasSubstr("big")));
    EXPECT_THAT(file->Strings("ints"), StatusIs(kInvalid, HasSubstr("an array of strings")));
    EXPECT_THAT(file->Ints("list"), StatusIs(kInvalid, HasSubstr("an array of whole numbers")));
  }
}

TEST(GgufTest, DequantisesPlainTypes) {
  GgufWriter writer;
  writer.FloatTensor("f32", {2, 2}, {1, -2, 3, 0.1f});
  writer.Tensor(
      "f16", {3}, 1,
      Raw<uint16_t>(0x3c00) + Raw<uint16_t>(0xb800) + Raw<uint16_t>(0x0001));     // 1, -0.5, 2^-24
  writer.Tensor("bf16", {2}, 30, Raw<uint16_t>(0x3f80) + Raw<uint16_t>(0xc040));  // 1, -3
  std::string q8 = Raw<uint16_t>(0x3800),
              q4 = Raw<uint16_t>(0x3800) + Raw<uint16_t>(0xbc00);  // d = 0.5; d = 0.5, m = -1
  for (int i = 0; i < 32; ++i) q8 += static_cast<char>(i - 16);
  for (int i = 0; i < 16; ++i) q4 += static_cast<char>(i | (15 - i) << 4);
  writer.Tensor("q8_0", {1, 32}, 8, q8);
  writer.Tensor("q4_1", {2, 32}, 3, q4 + q4);
  writer.Tensor("iq2_xs", {256}, 17, std::string(74, '\0'));
  ASSERT_OK_AND_ASSIGN(const auto file, Open(writer.Bytes()));
  EXPECT_TRUE(at::equal(*file->Read("f32"), at::tensor({1.f, -2.f, 3.f, 0.1f}).view({2, 2})));
  EXPECT_TRUE(at::equal(*file->Read("f16"), at::tensor({1.f, -0.5f, 0x1p-24f})));
  EXPECT_TRUE(at::equal(*file->Read("bf16"), at::tensor({1.f, -3.f})));
  EXPECT_TRUE(
      at::equal(*file->Read("q8_0"), (at::arange(32, at::kFloat) - 16).mul(0.5).view({1, 32})));
  const at::Tensor up = at::arange(16, at::kFloat) * 0.5 - 1;
  EXPECT_TRUE(at::equal(*file->Read("q4_1"), at::cat({up, up.flip(0)}).expand({2, 32})));
  EXPECT_THAT(
      file->Read("iq2_xs"),
      StatusIs(
          kUnimplemented,
          HasSubstr(
              "x.gguf: iq2_xs: type IQ2_XS is not supported yet (F32, F16, BF16, Q4_0, Q4_1, Q5_0, "
              "Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4 are)")));
}

// Every bit of every element equals gguf-py's (make_gguf_golden.py). The blocks are repeated so
// that several threads process them.
TEST(GgufTest, QuantisedTypesAreTheReferences) {
  const json golden =
      json::parse(moonring::testing::ReadAll("tests/model/gguf/gguf_types_golden.json"));
  EXPECT_EQ(golden.size(), 13);
  for (const auto& [name, wanted] : golden.items()) {
    SCOPED_TRACE(name);
    const std::string blocks = absl::HexStringToBytes(wanted["blocks"].get<std::string>()),
                      values = absl::HexStringToBytes(wanted["values"].get<std::string>());
    const uint64_t elements = values.size() / sizeof(float),
                   repeats = (uint64_t{1} << 20) / elements;
    std::string many;
    for (uint64_t i = 0; i < repeats; ++i) many += blocks;
    GgufWriter writer;
    writer.Tensor("w", {repeats, elements}, wanted["id"].get<uint32_t>(), many);
    ASSERT_OK_AND_ASSIGN(const auto file, Open(writer.Bytes()));
    ASSERT_OK_AND_ASSIGN(const at::Tensor read, file->Read("w"));
    const char* bytes = static_cast<const char*>(read.const_data_ptr());
    for (const uint64_t row : {uint64_t{0}, uint64_t{1}, repeats / 2, repeats - 1}) {
      ASSERT_EQ(std::memcmp(bytes + row * values.size(), values.data(), values.size()), 0)
          << "row " << row;
    }
    EXPECT_TRUE(at::equal(read, read.narrow(0, 0, 1).expand_as(read)));
  }
}

TEST(GgufTest, RefusesOnePartOfSeveral) {
  GgufWriter writer;
  writer.Add("split.count", GgufWriter::kU16, Raw<uint16_t>(2));
  EXPECT_THAT(
      Open(writer.Bytes()),
      StatusIs(
          kUnimplemented,
          HasSubstr(
              "x.gguf: one of 2 parts of a model (split.count): merge them into one file first")));
  GgufWriter whole;
  whole.Add("split.count", GgufWriter::kU16, Raw<uint16_t>(1));
  EXPECT_THAT(Open(whole.Bytes()), IsOk());
}

TEST(GgufTest, RefusesFalseHeaders) {
  GgufWriter writer;
  writer.FloatTensor("w", {2, 4}, std::vector<float>(8));
  const std::string good = writer.Bytes();
  ASSERT_THAT(Open(good), IsOk());
  const auto with = [&](size_t at, const std::string& bytes) {
    return Open(std::string(good).replace(at, bytes.size(), bytes));
  };
  constexpr size_t kTensors = 8, kPairs = 16, kName = 24, kDims = 33, kSizes = 37, kType = 53,
                   kOffset = 57;
  EXPECT_THAT(Open(""),
              StatusIs(kInvalid, AllOf(HasSubstr("x.gguf: not a valid GGUF file: at byte 0 of 0"),
                                       HasSubstr("truncated"))));
  EXPECT_THAT(with(0, "GGML"), StatusIs(kInvalid, HasSubstr("does not begin with GGUF")));
  EXPECT_THAT(with(4, Raw<uint32_t>(1)),
              StatusIs(kInvalid, HasSubstr("version 1 is not supported")));
  EXPECT_THAT(with(4, Raw<uint32_t>(0x03000000)), StatusIs(kInvalid, HasSubstr("big-endian")));
  EXPECT_THAT(with(kTensors, Raw<uint64_t>(~0ull)),
              StatusIs(kInvalid, HasSubstr("the number of tensors is 18446744073709551615")));
  EXPECT_THAT(with(kPairs, Raw<uint64_t>(1ull << 40)),
              StatusIs(kInvalid, HasSubstr("the number of metadata values")));
  EXPECT_THAT(with(kName, Raw<uint64_t>(~0ull)),
              StatusIs(kInvalid, HasSubstr("a tensor's name requires 18446744073709551615 bytes")));
  EXPECT_THAT(with(kDims, Raw<uint32_t>(5)), StatusIs(kInvalid, HasSubstr("w has 5 dims")));
  EXPECT_THAT(with(kSizes, Raw<uint64_t>(0)), StatusIs(kInvalid, HasSubstr("impossible size 0")));
  EXPECT_THAT(with(kSizes, Raw<uint64_t>(~0ull)), StatusIs(kInvalid, HasSubstr("impossible size")));
  EXPECT_THAT(
      with(kSizes, Raw<uint64_t>(6)),
      StatusIs(kInvalid,
               HasSubstr("x.gguf: w: 48 bytes at offset 0 of the data, which has 32 bytes")));
  EXPECT_THAT(with(kType, Raw<uint32_t>(77)),
              StatusIs(kInvalid, HasSubstr("w has the unknown type 77")));
  EXPECT_THAT(with(kType, Raw<uint32_t>(8)),
              StatusIs(kInvalid, HasSubstr("w is Q8_0 with rows of 4, not a multiple of 32")));
  EXPECT_THAT(with(kOffset, Raw<uint64_t>(4)), StatusIs(kInvalid, HasSubstr("offset 4")));
  EXPECT_THAT(with(kOffset, Raw<uint64_t>(~0ull - 31)), StatusIs(kInvalid, HasSubstr("x.gguf: w")));

  writer.FloatTensor("w", {1}, {1});
  EXPECT_THAT(Open(writer.Bytes()), StatusIs(kInvalid, HasSubstr("the tensor w is there twice")));
  GgufWriter pairs;
  pairs.Add("k", 99, "");
  EXPECT_THAT(Open(pairs.Bytes()),
              StatusIs(kInvalid, HasSubstr("k has the unknown value type 99")));
  GgufWriter nested;
  nested.Add("k", GgufWriter::kArray, Raw<uint32_t>(GgufWriter::kArray) + Raw<uint64_t>(1));
  EXPECT_THAT(Open(nested.Bytes() + std::string(64, '\0')),
              StatusIs(kInvalid, HasSubstr("k is an array of the unknown value type 9")));
  GgufWriter twice;
  twice.U32("k", 1);
  twice.U32("k", 2);
  EXPECT_THAT(Open(twice.Bytes()), StatusIs(kInvalid, HasSubstr("the key k is there twice")));
  GgufWriter odd;
  odd.U32("general.alignment", 24);
  EXPECT_THAT(Open(odd.Bytes()),
              StatusIs(kInvalid, HasSubstr("general.alignment: expected a power of 2")));
}

// Reads everything in an open file. The tests only require that this function returns.
void ReadEverything(const std::shared_ptr<const GgufFile>& file) {
  for (const auto& [key, value] : file->metadata()) {
    (void)file->Strings(key);
    (void)file->Ints(key);
  }
  for (const auto& [name, tensor] : file->tensors()) (void)file->Read(name);
  const auto tokenizer = TokenizerFilesFromGguf(*file);
  if (tokenizer.ok()) {
    for (const auto& [name, text] : *tokenizer) EXPECT_TRUE(json::accept(text)) << name;
  }
  const auto model = GgufModel::Open(file);
  if (!model.ok()) return;
  for (const auto& [name, weight] : (*model)->weights()) (void)(*model)->Read(name);
}

TEST(GgufTest, SurvivesTruncation) {
  const ScratchFolder folder;
  const std::string good = TinyGguf().Bytes();
  for (size_t length = 0; length < good.size(); length += length < 200 ? 1 : 11) {
    EXPECT_FALSE(GgufFile::Open(folder.Write("x.gguf", good.substr(0, length))).ok()) << length;
  }
}

// Damaged files do not crash the reader: each byte of the header, and some bytes of the data, are
// damaged in one of three ways in turn.
TEST(GgufTest, SurvivesDamage) {
  const ScratchFolder folder;
  const std::string good = TinyGguf().Bytes();
  constexpr uint8_t kFlips[] = {0x01, 0x80, 0xff};
  int opened = 0, trial = 0;
  for (size_t at = 0; at < good.size(); at += at < 2100 ? 1 : 61) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ kFlips[trial++ % 3]);
    const auto file = GgufFile::Open(folder.Write("x.gguf", damaged));
    if (!file.ok()) continue;
    ++opened;
    ReadEverything(*file);
  }
  EXPECT_GT(opened, 100);
}

TEST(GgufModelTest, NamesWeightsAndOrdersRowsAsPublished) {
  ASSERT_OK_AND_ASSIGN(const auto model, OpenModel(TinyGguf()));
  EXPECT_EQ(model->weights().size(), 11);
  EXPECT_EQ(model->weights().at("model.embed_tokens.weight").shape, (std::vector<int64_t>{12, 8}));
  EXPECT_EQ(model->weights().at("model.layers.0.mlp.down_proj.weight").shape,
            (std::vector<int64_t>{8, 16}));
  const at::Tensor stored_q = at::arange(64, at::kFloat).div(64).add(3).view({8, 8});
  // Heads with 4 rows: GGUF stores a0 b0 a1 b1, the published model a0 a1 b0 b1.
  EXPECT_TRUE(at::equal(*model->Read("model.layers.0.self_attn.q_proj.weight"),
                        stored_q.index_select(0, at::tensor({0, 2, 1, 3, 4, 6, 5, 7}, at::kLong))));
  const at::Tensor stored_k = at::arange(32, at::kFloat).div(64).add(4).view({4, 8});
  EXPECT_TRUE(at::equal(*model->Read("model.layers.0.self_attn.k_proj.weight"),
                        stored_k.index_select(0, at::tensor({0, 2, 1, 3}, at::kLong))));
  EXPECT_TRUE(at::equal(*model->Read("model.layers.0.self_attn.v_proj.weight"),
                        at::arange(32, at::kFloat).div(64).add(5).view({4, 8})));
}

TEST(GgufModelTest, ConfigIsHuggingFaces) {
  ASSERT_OK_AND_ASSIGN(const auto model, OpenModel(TinyGguf()));
  const ModelConfig& config = model->config();
  EXPECT_EQ(config.rms_norm_eps, 1e-5) << "not the fp32 number that GGUF stores";
  EXPECT_EQ(config.rotaries[0].theta, 1e5);
  EXPECT_EQ(config.vocab_size, 12);
  EXPECT_EQ(config.heads, 2);
  EXPECT_EQ(config.kv_heads, 1);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.max_position_embeddings, 64);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(0));
  EXPECT_FALSE(config.pad_token_id.has_value());
  const json text = json::parse(config.json);
  EXPECT_EQ(text["rope_theta"], 1e5);
  EXPECT_TRUE(text["rope_scaling"].is_null());
  EXPECT_EQ(text["torch_dtype"], "float32");
}

// An LFM2 file like those of llama.cpp's converter: a list of kv heads, and convolution taps with
// two dims.
GgufWriter Lfm2Gguf(const std::vector<int32_t>& kv_heads) {
  GgufWriter writer;
  writer.String("general.architecture", "lfm2");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, uint32_t>>{{"context_length", 64},
                                                     {"embedding_length", 8},
                                                     {"block_count", 2},
                                                     {"feed_forward_length", 12},
                                                     {"attention.head_count", 2},
                                                     {"shortconv.l_cache", 3}})
    writer.U32("lfm2." + key, value);
  writer.Ints("lfm2.attention.head_count_kv", kv_heads);
  writer.F32("lfm2.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.F32("lfm2.rope.freq_base", 1e6f);
  const auto add = [&](const std::string& name, const std::vector<uint64_t>& shape) {
    uint64_t count = 1;
    for (const uint64_t size : shape) count *= size;
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 0.0f);
    writer.FloatTensor(name + ".weight", shape, values);
  };
  add("token_embd", {12, 8});
  add("token_embd_norm", {8});
  for (const std::string block : {"blk.0.", "blk.1."}) {
    for (const char* norm : {"attn_norm", "ffn_norm"}) add(block + norm, {8});
    for (const char* map : {"ffn_gate", "ffn_up"}) add(block + map, {12, 8});
    add(block + "ffn_down", {8, 12});
  }
  add("blk.0.shortconv.in_proj", {24, 8});
  add("blk.0.shortconv.conv", {8, 3});
  add("blk.0.shortconv.out_proj", {8, 8});
  for (const char* norm : {"attn_q_norm", "attn_k_norm"}) add(std::string("blk.1.") + norm, {4});
  for (const char* map : {"attn_q", "attn_output"}) add(std::string("blk.1.") + map, {8, 8});
  for (const char* map : {"attn_k", "attn_v"}) add(std::string("blk.1.") + map, {4, 8});
  return writer;
}

TEST(GgufModelTest, ReadsLfm2) {
  ASSERT_OK_AND_ASSIGN(const auto model, OpenModel(Lfm2Gguf({0, 1})));
  const ModelConfig& config = model->config();
  EXPECT_EQ(config.model_type, "lfm2");
  EXPECT_EQ(config.layer_rules[0].mixer, &kGatedConvolution);
  EXPECT_EQ(config.layer_rules[1].mixer, &kSoftmaxAttention);
  EXPECT_EQ(config.kv_heads, 1);
  EXPECT_EQ(config.intermediate_size, 12) << "as it comes out, not two thirds of it";
  EXPECT_EQ(config.convolution.taps, 3);
  EXPECT_FALSE(config.convolution.bias);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rotaries[0].theta, 1e6);
  EXPECT_TRUE(config.tie_word_embeddings);
  for (const WeightShape& wanted : WantedWeights(config)) {
    ASSERT_TRUE(model->weights().contains(wanted.name)) << wanted.name;
    EXPECT_EQ(model->weights().at(wanted.name).shape, wanted.shape) << wanted.name;
    ASSERT_OK_AND_ASSIGN(const at::Tensor weight, model->Read(wanted.name));
    EXPECT_EQ(weight.sizes(), at::IntArrayRef(wanted.shape)) << wanted.name;
  }
  EXPECT_EQ(model->weights().size(), WantedWeights(config).size());
  EXPECT_TRUE(at::equal(*model->Read("model.layers.0.conv.conv.weight"),
                        at::arange(24, at::kFloat).view({8, 1, 3})));
  EXPECT_THAT(OpenModel(Lfm2Gguf({2, 1})),
              StatusIs(kUnimplemented, HasSubstr("lfm2.attention.head_count_kv: layers of "
                                                 "different numbers of heads")));
}

using Sizes = std::vector<std::pair<std::string, uint32_t>>;

// Writes the keys of every architecture: width 8, 2 heads, `layers` layers, and the additional
// `sizes`.
GgufWriter WithSizes(const std::string& architecture, uint32_t layers, const Sizes& sizes,
                     bool experts = true) {
  GgufWriter writer;
  writer.String("general.architecture", architecture);
  for (const auto& [key, value] : Sizes{{"context_length", 64},
                                        {"embedding_length", 8},
                                        {"block_count", layers},
                                        {"feed_forward_length", 12},
                                        {"attention.head_count", 2}})
    writer.U32(architecture + "." + key, value);
  for (const auto& [key, value] : Sizes{{"expert_count", 3}, {"expert_used_count", 2}})
    if (experts) writer.U32(architecture + "." + key, value);
  for (const auto& [key, value] : sizes) writer.U32(architecture + "." + key, value);
  writer.F32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  return writer;
}

// Adds a tensor with the values 0, 1, 2, ...
void AddTensor(GgufWriter& writer, const std::string& name, const std::vector<uint64_t>& shape) {
  uint64_t count = 1;
  for (const uint64_t size : shape) count *= size;
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  writer.FloatTensor(name, shape, values);
}

void AddVocabulary(GgufWriter& writer) {
  AddTensor(writer, "token_embd.weight", {12, 8});
  AddTensor(writer, "output_norm.weight", {8});
}

// Expects that a file has exactly the weights that its config requires, with the required shapes.
void ExpectWhole(const GgufModel& model) {
  for (const WeightShape& wanted : WantedWeights(model.config())) {
    ASSERT_TRUE(model.weights().contains(wanted.name)) << wanted.name;
    EXPECT_EQ(model.weights().at(wanted.name).shape, wanted.shape) << wanted.name;
    ASSERT_OK_AND_ASSIGN(const at::Tensor weight, model.Read(wanted.name));
    EXPECT_EQ(weight.sizes(), at::IntArrayRef(wanted.shape)) << wanted.name;
  }
  EXPECT_EQ(model.weights().size(), WantedWeights(model.config()).size());
}

GgufWriter GptOssGguf() {
  GgufWriter writer = WithSizes("gpt-oss", 2,
                                {{"attention.head_count_kv", 1},
                                 {"attention.key_length", 4},
                                 {"attention.value_length", 4},
                                 {"attention.sliding_window", 16},
                                 {"expert_feed_forward_length", 32},
                                 {"rope.scaling.original_context_length", 32}});
  writer.F32("gpt-oss.rope.freq_base", 150000.0f);
  writer.String("gpt-oss.rope.scaling.type", "yarn");
  writer.F32("gpt-oss.rope.scaling.factor", 32.0f);
  writer.F32("gpt-oss.rope.scaling.yarn_beta_fast", 16.0f);
  writer.F32("gpt-oss.rope.scaling.yarn_beta_slow", 2.0f);
  AddVocabulary(writer);
  AddTensor(writer, "output.weight", {12, 8});
  for (const std::string block : {"blk.0.", "blk.1."}) {
    AddTensor(writer, block + "attn_norm.weight", {8});
    AddTensor(writer, block + "post_attention_norm.weight", {8});
    for (const char* map : {"attn_q", "attn_output"}) {
      AddTensor(writer, block + map + ".weight", {8, 8});
      AddTensor(writer, block + map + ".bias", {8});
    }
    for (const char* map : {"attn_k", "attn_v"}) {
      AddTensor(writer, block + map + ".weight", {4, 8});
      AddTensor(writer, block + map + ".bias", {4});
    }
    AddTensor(writer, block + "attn_sinks.weight", {2});
    AddTensor(writer, block + "ffn_gate_inp.weight", {3, 8});
    AddTensor(writer, block + "ffn_gate_inp.bias", {3});
    for (const char* map : {"ffn_gate_exps", "ffn_up_exps"}) {
      AddTensor(writer, block + map + ".weight", {3, 32, 8});
      AddTensor(writer, block + map + ".bias", {3, 32});
    }
    AddTensor(writer, block + "ffn_down_exps.bias", {3, 8});
  }
  AddTensor(writer, "blk.0.ffn_down_exps.weight", {3, 8, 32});
  // A row of 32 elements is one MXFP4 block: a scale byte, then 16 bytes with the codes 0 to 15 in
  // the lower nibbles (first half of the row) and 15 to 0 in the upper ones (second half).
  std::string row = "\x7f";
  for (int i = 0; i < 16; ++i) row += static_cast<char>(i | (15 - i) << 4);
  std::string rows;
  for (int i = 0; i < 24; ++i) rows += row;
  writer.Tensor("blk.1.ffn_down_exps.weight", {3, 8, 32}, 39, rows);
  return writer;
}

TEST(GgufModelTest, ReadsGptOss) {
  ASSERT_OK_AND_ASSIGN(const auto model, OpenModel(GptOssGguf()));
  const ModelConfig& config = model->config();
  EXPECT_EQ(config.model_type, "gpt_oss");
  EXPECT_EQ(config.experts.count, 3);
  EXPECT_EQ(config.experts.chosen, 2);
  EXPECT_EQ(config.experts.intermediate, 32) << "not feed_forward_length";
  EXPECT_EQ(config.layer_rules[0].window, 16);
  EXPECT_EQ(config.layer_rules[1].window, 0);
  EXPECT_EQ(config.rotaries[0].kind, RopeKind::kYarn);
  EXPECT_EQ(config.rotaries[0].factor, 32);
  EXPECT_EQ(config.rotaries[0].beta_fast, 16);
  EXPECT_EQ(config.rotaries[0].beta_slow, 2);
  EXPECT_FALSE(config.rotaries[0].truncate) << "as the published models";
  ExpectWhole(*model);
  // Gate and up features alternate, and rows are columns. Both tensors contain the same numbers.
  const at::Tensor rows = at::arange(3 * 32 * 8, at::kFloat).view({3, 32, 8});
  EXPECT_TRUE(at::equal(*model->Read("model.layers.0.mlp.experts.gate_up_proj"),
                        rows.transpose(1, 2).repeat_interleave(2, 2)));
  EXPECT_TRUE(at::equal(*model->Read("model.layers.0.mlp.experts.gate_up_proj_bias"),
                        at::arange(96, at::kFloat).view({3, 32}).repeat_interleave(2, 1)));
  EXPECT_TRUE(at::equal(*model->Read("model.layers.0.mlp.experts.down_proj"),
                        at::arange(3 * 32 * 8, at::kFloat).view({3, 8, 32}).transpose(1, 2)));
  const at::Tensor numbers = at::tensor(
      {0.f, .5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f, 0.f, -.5f, -1.f, -1.5f, -2.f, -3.f, -4.f, -6.f});
  EXPECT_TRUE(at::equal(*model->Read("model.layers.1.mlp.experts.down_proj"),
                        at::cat({numbers, numbers.flip(0)}).view({1, 32, 1}).expand({3, 32, 8})));
}

TEST(GgufModelTest, RefusesGatesThatAreNotAsTheUps) {
  GgufWriter writer = WithSizes("gpt-oss", 1, {{"attention.sliding_window", 16}});
  AddVocabulary(writer);
  AddTensor(writer, "blk.0.ffn_gate_exps.weight", {3, 12, 8});
  AddTensor(writer, "blk.0.ffn_up_exps.weight", {3, 11, 8});
  ASSERT_OK_AND_ASSIGN(const auto model, OpenModel(writer));
  EXPECT_THAT(model->Read("model.layers.0.mlp.experts.gate_up_proj"),
              StatusIs(kInvalid, HasSubstr("x.gguf: blk.0.ffn_gate_exps.weight and "
                                           "blk.0.ffn_up_exps.weight do not have the shapes of "
                                           "model.layers.0.mlp.experts.gate_up_proj")));
}

void AddGroupedExperts(GgufWriter& writer, const std::string& block) {
  AddTensor(writer, block + "ffn_gate_inp.weight", {3, 8});
  AddTensor(writer, block + "exp_probs_b.bias", {3});
  for (const char* map : {"ffn_gate", "ffn_up"}) {
    AddTensor(writer, block + map + "_exps.weight", {3, 4, 8});
    AddTensor(writer, block + map + "_shexp.weight", {8, 8});
  }
  AddTensor(writer, block + "ffn_down_exps.weight", {3, 8, 4});
  AddTensor(writer, block + "ffn_down_shexp.weight", {8, 8});
}

void AddDense(GgufWriter& writer, const std::string& block) {
  for (const char* map : {"ffn_gate", "ffn_up"})
    AddTensor(writer, block + map + ".weight", {12, 8});
  AddTensor(writer, block + "ffn_down.weight", {8, 12});
}

// A GLM-4.5 file: a dense layer, a layer with experts, and a layer that predicts a second token.
GgufWriter Glm4MoeGguf(const Sizes& more) {
  Sizes sizes = {{"attention.head_count_kv", 1},    {"attention.key_length", 8},
                 {"attention.value_length", 8},     {"rope.dimension_count", 4},
                 {"expert_feed_forward_length", 4}, {"expert_shared_count", 2},
                 {"leading_dense_block_count", 1}};
  sizes.insert(sizes.end(), more.begin(), more.end());
  GgufWriter writer = WithSizes("glm4moe", 3, sizes);
  writer.F32("glm4moe.expert_weights_scale", 2.5f);
  writer.Bool("glm4moe.expert_weights_norm", true);
  AddVocabulary(writer);
  for (const std::string block : {"blk.0.", "blk.1."}) {
    for (const char* norm : {"attn_norm", "post_attention_norm", "attn_q_norm", "attn_k_norm"})
      AddTensor(writer, block + norm + ".weight", {8});
    AddTensor(writer, block + "attn_q.weight", {16, 8});
    for (const char* map : {"attn_k", "attn_v"}) AddTensor(writer, block + map + ".weight", {8, 8});
    AddTensor(writer, block + "attn_output.weight", {8, 16});
  }
  AddDense(writer, "blk.0.");
  AddGroupedExperts(writer, "blk.1.");
  AddTensor(writer, "blk.2.attn_norm.weight", {8});
  AddTensor(writer, "blk.2.nextn.enorm.weight", {8});
  return writer;
}

TEST(GgufModelTest, ReadsGlm4Moe) {
  ASSERT_OK_AND_ASSIGN(const auto model, OpenModel(Glm4MoeGguf({{"nextn_predict_layers", 1}})));
  const ModelConfig& config = model->config();
  EXPECT_EQ(config.model_type, "glm4_moe");
  EXPECT_EQ(config.layers, 2);
  EXPECT_FALSE(config.layer_rules[0].experts);
  EXPECT_TRUE(config.layer_rules[1].experts);
  EXPECT_EQ(config.head_norm, HeadNorm::kEachHead);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_EQ(config.rotaries[0].dim, 4);
  EXPECT_EQ(config.experts.shared, 8);
  EXPECT_EQ(config.experts.groups, 1);
  EXPECT_EQ(config.experts.scale, 2.5);
  EXPECT_TRUE(config.experts.normalised);
  EXPECT_EQ(config.experts.score, RouterScore::kSigmoid);
  ExpectWhole(*model);
  EXPECT_TRUE(at::equal(*model->Read("model.layers.1.mlp.experts.2.down_proj.weight"),
                        at::arange(64, 96, at::kFloat).view({8, 4})));
  EXPECT_TRUE(at::equal(*model->Read("model.layers.1.mlp.gate.e_score_correction_bias"),
                        at::arange(3, at::kFloat)));

  EXPECT_THAT(OpenModel(Glm4MoeGguf({{"expert_gating_func", 1}})),
              StatusIs(kUnimplemented, HasSubstr("x.gguf: glm4moe.expert_gating_func is 1: routers "
                                                 "of another score than sigmoid's, 2, are not")));
  EXPECT_THAT(OpenModel(Glm4MoeGguf({{"nextn_predict_layers", 3}})),
              StatusIs(kInvalid, HasSubstr("num_hidden_layers")));
}

// A DeepSeek-V3 file. In newer files, the map from the latent of keys and values is split in two.
GgufWriter DeepseekGguf(bool newer, const Sizes& more) {
  Sizes sizes = {{"attention.head_count_kv", newer ? 1 : 2},
                 {"attention.key_length", newer ? 7 : 5},
                 {"attention.value_length", newer ? 5 : 4},
                 {"attention.kv_lora_rank", 5},
                 {"rope.dimension_count", 2},
                 {"expert_feed_forward_length", 4},
                 {"expert_shared_count", 2},
                 {"leading_dense_block_count", 1},
                 {"rope.scaling.original_context_length", 16}};
  if (newer)
    sizes.insert(sizes.end(), {{"attention.key_length_mla", 5}, {"attention.value_length_mla", 4}});
  sizes.insert(sizes.end(), more.begin(), more.end());
  GgufWriter writer = WithSizes("deepseek2", 2, sizes);
  writer.String("deepseek2.rope.scaling.type", "yarn");
  writer.F32("deepseek2.rope.scaling.factor", 4.0f);
  writer.F32("deepseek2.rope.scaling.yarn_log_multiplier", 0.0707f);
  AddVocabulary(writer);
  for (const std::string block : {"blk.0.", "blk.1."}) {
    for (const char* norm : {"attn_norm", "ffn_norm"})
      AddTensor(writer, block + norm + ".weight", {8});
    AddTensor(writer, block + "attn_q.weight", {10, 8});
    AddTensor(writer, block + "attn_kv_a_mqa.weight", {7, 8});
    AddTensor(writer, block + "attn_kv_a_norm.weight", {5});
    if (newer) {
      AddTensor(writer, block + "attn_k_b.weight", {2, 5, 3});
      AddTensor(writer, block + "attn_v_b.weight", {2, 4, 5});
    } else {
      AddTensor(writer, block + "attn_kv_b.weight", {14, 5});
    }
    AddTensor(writer, block + "attn_output.weight", {8, 8});
  }
  AddDense(writer, "blk.0.");
  AddGroupedExperts(writer, "blk.1.");
  return writer;
}

TEST(GgufModelTest, ReadsDeepseek) {
  const Sizes routing = {
      {"expert_gating_func", 2}, {"expert_group_count", 1}, {"expert_group_used_count", 1}};
  for (const bool newer : {true, false}) {
    SCOPED_TRACE(newer ? "newer" : "older");
    ASSERT_OK_AND_ASSIGN(const auto model, OpenModel(DeepseekGguf(newer, routing)));
    const ModelConfig& config = model->config();
    EXPECT_EQ(config.model_type, "deepseek_v3");
    EXPECT_EQ(config.latent.query_rank, 0);
    EXPECT_EQ(config.latent.key_value_rank, 5);
    EXPECT_EQ(config.latent.plain_dim, 3);
    EXPECT_EQ(config.latent.rotary_dim, 2);
    EXPECT_EQ(config.latent.value_dim, 4);
    EXPECT_TRUE(config.rotaries[0].interleaved);
    EXPECT_FALSE(config.experts.normalised) << "where the file does not say";
    EXPECT_EQ(config.experts.scale, 1);
    // mscale and mscale_all_dim are 0.707: scores are multiplied by the square of the magnitude,
    // and rotary features are not scaled.
    const double magnitude = 0.0707 * std::log(4.0) + 1;
    EXPECT_NEAR(config.score_scale, magnitude * magnitude / std::sqrt(5.0), 1e-12);
    EXPECT_NEAR(config.rotaries[0].attention_factor, 1, 1e-12);
    ExpectWhole(*model);
    const auto map = model->Read("model.layers.0.self_attn.kv_b_proj.weight");
    if (!newer) {
      EXPECT_TRUE(at::equal(*map, at::arange(70, at::kFloat).view({14, 5})));
      continue;
    }
    const at::Tensor keys = at::arange(30, at::kFloat).view({2, 5, 3}),
                     values = at::arange(40, at::kFloat).view({2, 4, 5});
    EXPECT_TRUE(
        at::equal(*map, at::cat({keys[0].t(), values[0], keys[1].t(), values[1]}).contiguous()));
  }
  EXPECT_THAT(OpenModel(DeepseekGguf(true, {})),
              StatusIs(kUnimplemented, HasSubstr("deepseek2.expert_gating_func is 1: routers")))
      << "DeepSeek-V2's files do not have it";
  EXPECT_THAT(OpenModel(DeepseekGguf(true, {{"expert_gating_func", 2}})),
              StatusIs(kNotFound, HasSubstr("deepseek2.expert_group_count: missing")));
}

// A model with a gated delta rule, like those of llama.cpp's conversion/qwen.py: a layer with two
// key heads of dim 2, each with three value heads of dim 3, then an attention layer with gated
// heads.
constexpr int64_t kKeyHeads = 2, kValuesEach = 3, kKeyDim = 2, kValueDim = 3,
                  kKeys = kKeyHeads * kKeyDim, kValues = kKeyHeads * kValuesEach * kValueDim;

GgufWriter DeltaGguf(const std::string& architecture, const Sizes& more) {
  Sizes sizes = {{"attention.head_count_kv", 1},
                 {"attention.key_length", 4},
                 {"attention.value_length", 4},
                 {"rope.dimension_count", 2},
                 {"full_attention_interval", 2},
                 {"ssm.conv_kernel", 4},
                 {"ssm.state_size", kKeyDim},
                 {"ssm.group_count", kKeyHeads},
                 {"ssm.time_step_rank", kKeyHeads * kValuesEach},
                 {"ssm.inner_size", kValues}};
  sizes.insert(sizes.end(), more.begin(), more.end());
  GgufWriter writer = WithSizes(architecture, 2, sizes, architecture != "qwen35");
  AddVocabulary(writer);
  for (const std::string block : {"blk.0.", "blk.1."}) {
    for (const char* norm : {"attn_norm", "post_attention_norm"})
      AddTensor(writer, block + norm + ".weight", {8});
  }
  AddTensor(writer, "blk.1.attn_q.weight", {16, 8});
  for (const char* map : {"attn_k", "attn_v"})
    AddTensor(writer, std::string("blk.1.") + map + ".weight", {4, 8});
  for (const char* norm : {"attn_q_norm", "attn_k_norm"})
    AddTensor(writer, std::string("blk.1.") + norm + ".weight", {4});
  AddTensor(writer, "blk.1.attn_output.weight", {8, 8});
  AddTensor(writer, "blk.0.ssm_norm.weight", {kValueDim});
  return writer;
}

void AddNumbers(GgufWriter& writer, const std::string& name, const at::Tensor& tensor) {
  const at::Tensor values = tensor.contiguous();
  writer.FloatTensor(
      name, {values.sizes().begin(), values.sizes().end()},
      {values.const_data_ptr<float>(), values.const_data_ptr<float>() + values.numel()});
}

// Reorders the value heads along `dim`, from `first` on, to the file's order: the first value head
// of every key head, then the second ones, and so on.
at::Tensor Tiled(const at::Tensor& published, int64_t dim, int64_t first, int64_t width) {
  at::Tensor file = published.clone();
  for (int64_t g = 0; g < kKeyHeads; ++g) {
    for (int64_t r = 0; r < kValuesEach; ++r) {
      for (int64_t i = 0; i < width; ++i)
        file.select(dim, first + (r * kKeyHeads + g) * width + i)
            .copy_(published.select(dim, first + (g * kValuesEach + r) * width + i));
    }
  }
  return file;
}

at::Tensor Numbers(at::IntArrayRef sizes) {
  return at::arange(c10::multiply_integers(sizes), at::kFloat).view(sizes);
}

TEST(GgufModelTest, ReadsQwen35) {
  const int64_t heads = kKeyHeads * kValuesEach, channels = 2 * kKeys + kValues;
  const std::string layer = "model.layers.0.linear_attn.";
  const std::vector<std::pair<std::string, at::Tensor>> published = {
      {"in_proj_qkv.weight", Numbers({channels, 8})},
      {"in_proj_z.weight", Numbers({kValues, 8})},
      {"in_proj_b.weight", Numbers({heads, 8})},
      {"in_proj_a.weight", Numbers({heads, 8})},
      {"conv1d.weight", Numbers({channels, 1, 4})},
      {"A_log", Numbers({heads}) / 4 - 1},
      {"dt_bias", Numbers({heads})},
      {"out_proj.weight", Numbers({8, kValues})}};
  for (const bool experts : {false, true}) {
    const std::string name = experts ? "qwen35moe" : "qwen35";
    Sizes sizes;
    if (experts)
      sizes = {{"expert_feed_forward_length", 4}, {"expert_shared_feed_forward_length", 6}};
    GgufWriter writer = DeltaGguf(name, sizes);
    writer.F32(name + ".rope.freq_base", 1e7f);
    writer.Ints(name + ".rope.dimension_sections", {1, 0, 0, 0});
    const std::string block = "blk.0.";
    AddNumbers(writer, block + "attn_qkv.weight",
               Tiled(published[0].second, 0, 2 * kKeys, kValueDim));
    AddNumbers(writer, block + "attn_gate.weight", Tiled(published[1].second, 0, 0, kValueDim));
    AddNumbers(writer, block + "ssm_beta.weight", Tiled(published[2].second, 0, 0, 1));
    AddNumbers(writer, block + "ssm_alpha.weight", Tiled(published[3].second, 0, 0, 1));
    AddNumbers(writer, block + "ssm_conv1d.weight",
               Tiled(published[4].second.squeeze(1), 0, 2 * kKeys, kValueDim));
    AddNumbers(writer, block + "ssm_a", Tiled(-published[5].second.exp(), 0, 0, 1));
    AddNumbers(writer, block + "ssm_dt.bias", Tiled(published[6].second, 0, 0, 1));
    AddNumbers(writer, block + "ssm_out.weight", Tiled(published[7].second, 1, 0, kValueDim));
    for (const std::string each : {"blk.0.", "blk.1."}) {
      if (!experts) {
        AddDense(writer, each);
        continue;
      }
      AddTensor(writer, each + "ffn_gate_inp.weight", {3, 8});
      AddTensor(writer, each + "ffn_gate_inp_shexp.weight", {8});
      for (const char* map : {"ffn_gate", "ffn_up"}) {
        AddTensor(writer, each + map + "_exps.weight", {3, 4, 8});
        AddTensor(writer, each + map + "_shexp.weight", {6, 8});
      }
      AddTensor(writer, each + "ffn_down_exps.weight", {3, 8, 4});
      AddTensor(writer, each + "ffn_down_shexp.weight", {8, 6});
    }
    ASSERT_OK_AND_ASSIGN(const auto model, OpenModel(writer));
    const ModelConfig& config = model->config();
    EXPECT_EQ(config.model_type, experts ? "qwen3_5_moe_text" : "qwen3_5_text");
    EXPECT_EQ(config.layer_rules[0].mixer, &kGatedDelta);
    EXPECT_EQ(config.layer_rules[1].mixer, &kSoftmaxAttention);
    EXPECT_EQ(config.delta.value_heads, 6);
    EXPECT_EQ(config.delta.value_dim, 3);
    EXPECT_EQ(config.delta.key_dim, 2);
    EXPECT_EQ(config.rotaries[0].dim, 2);
    EXPECT_EQ(config.rotaries[0].theta, 1e7);
    const json text = json::parse(config.json);
    EXPECT_EQ(text["rope_parameters"]["mrope_section"], json({1, 0, 0}));
    EXPECT_FALSE(text.contains("rope_theta")) << "as Transformers 5 has it";
    ExpectWhole(*model);
    for (const auto& [weight, wanted] : published) {
      ASSERT_OK_AND_ASSIGN(const at::Tensor read, model->Read(layer + weight));
      EXPECT_TRUE(at::allclose(read, wanted, weight == "A_log" ? 1e-6 : 0.0, 0.0)) << weight;
    }
    EXPECT_TRUE(at::equal(*model->Read(layer + "norm.weight"), Numbers({kValueDim})))
        << "its norm multiplies by w";
    for (const char* norm : {"model.layers.0.input_layernorm.weight", "model.norm.weight",
                             "model.layers.0.post_attention_layernorm.weight"})
      EXPECT_TRUE(at::equal(*model->Read(norm), Numbers({8}) - 1)) << norm;
    EXPECT_TRUE(
        at::equal(*model->Read("model.layers.1.self_attn.q_norm.weight"), Numbers({4}) - 1));
    EXPECT_TRUE(
        at::equal(*model->Read("model.layers.1.self_attn.q_proj.weight"), Numbers({16, 8})));
  }
}

TEST(GgufModelTest, ReadsQwen3Next) {
  const int64_t each = kValuesEach * kValueDim, rows = 2 * kKeyDim + 2 * each;
  const at::Tensor published = Numbers({kKeyHeads * rows, 8});  // by key head: q, k, v, z
  std::vector<at::Tensor> q, k, v, z;
  for (int64_t g = 0; g < kKeyHeads; ++g) {
    const auto part = [&](int64_t first, int64_t count) {
      return published.narrow(0, g * rows + first, count);
    };
    q.push_back(part(0, kKeyDim));
    k.push_back(part(kKeyDim, kKeyDim));
    v.push_back(part(2 * kKeyDim, each));
    z.push_back(part(2 * kKeyDim + each, each));
  }
  for (const bool older : {false, true}) {
    GgufWriter writer = DeltaGguf(
        "qwen3next", {{"expert_feed_forward_length", 4}, {"expert_shared_feed_forward_length", 6}});
    if (older) {
      AddNumbers(writer, "blk.0.ssm_in.weight", published);
    } else {
      AddNumbers(writer, "blk.0.attn_qkv.weight", at::cat({at::cat(q), at::cat(k), at::cat(v)}));
      AddNumbers(writer, "blk.0.attn_gate.weight", at::cat(z));
    }
    AddNumbers(writer, "blk.0.ssm_ba.weight", Numbers({12, 8}));
    AddNumbers(writer, "blk.0.ssm_conv1d.weight", Numbers({2 * kKeys + kValues, 4}));
    AddNumbers(writer, "blk.0.ssm_a", -Numbers({6}).exp());
    AddNumbers(writer, "blk.0.ssm_dt.bias", Numbers({6}));
    AddNumbers(writer, "blk.0.ssm_out.weight", Numbers({8, kValues}));
    for (const std::string block : {"blk.0.", "blk.1."}) {
      AddTensor(writer, block + "ffn_gate_inp.weight", {3, 8});
      AddTensor(writer, block + "ffn_gate_inp_shexp.weight", {8});
      for (const char* map : {"ffn_gate", "ffn_up"}) {
        AddTensor(writer, block + map + "_exps.weight", {3, 4, 8});
        AddTensor(writer, block + map + "_shexp.weight", {6, 8});
      }
      AddTensor(writer, block + "ffn_down_exps.weight", {3, 8, 4});
      AddTensor(writer, block + "ffn_down_shexp.weight", {8, 6});
    }
    ASSERT_OK_AND_ASSIGN(const auto model, OpenModel(writer));
    EXPECT_EQ(model->config().model_type, "qwen3_next");
    EXPECT_EQ(model->config().experts.shared, 6);
    ExpectWhole(*model);
    const std::string layer = "model.layers.0.linear_attn.";
    EXPECT_TRUE(at::equal(*model->Read(layer + "in_proj_qkvz.weight"), published));
    EXPECT_TRUE(at::equal(*model->Read(layer + "in_proj_ba.weight"), Numbers({12, 8})));
    EXPECT_TRUE(at::allclose(*model->Read(layer + "A_log"), Numbers({6}), 1e-6, 1e-6));
    EXPECT_TRUE(at::equal(*model->Read(layer + "out_proj.weight"), Numbers({8, kValues})))
        << "its value heads are stored as published";
  }
  EXPECT_THAT(OpenModel(DeltaGguf("qwen3next", {{"attention.recurrent_layers", 1}})),
              StatusIs(kUnimplemented, HasSubstr("attention.recurrent_layers")));
}

TEST(GgufModelTest, ShortestDecimal) {
  EXPECT_EQ(ShortestDecimal(1e-5f), 1e-5);
  EXPECT_EQ(ShortestDecimal(1e-6f), 1e-6);
  EXPECT_EQ(ShortestDecimal(500000.0f), 500000.0);
  EXPECT_EQ(ShortestDecimal(1000000.0f), 1000000.0);
  EXPECT_EQ(ShortestDecimal(0.1f), 0.1);
  EXPECT_EQ(static_cast<float>(ShortestDecimal(0.123456789f)), 0.123456789f);
}

TEST(GgufModelTest, RefusesWhatItCannotMean) {
  const auto with = [](auto change) {
    GgufWriter writer = TinyGguf();
    change(writer);
    return OpenModel(writer).status();
  };
  EXPECT_THAT(with([](GgufWriter& f) { f.String("llama.rope.scaling.type", "longrope"); }),
              StatusIs(kUnimplemented, HasSubstr("x.gguf: llama.rope.scaling.type: 'longrope' is "
                                                 "not supported (none, linear, yarn)")));
  EXPECT_THAT(with([](GgufWriter& f) { f.String("llama.rope.scaling.type", "yarn"); }),
              StatusIs(kNotFound, HasSubstr("llama.rope.scaling.factor: missing")));
  EXPECT_OK(with([](GgufWriter& f) { f.String("llama.rope.scaling.type", "none"); }));
  EXPECT_THAT(
      with([](GgufWriter& f) {
        f.FloatTensor("rope_freqs.weight", {2}, {1, 8});
      }),
      StatusIs(kUnimplemented, HasSubstr("rope_freqs.weight: factors that are not llama3's")));
  EXPECT_THAT(with([](GgufWriter& f) { f.U32("llama.attention.value_length", 8); }),
              StatusIs(kUnimplemented, HasSubstr("unequal sizes")));
  EXPECT_THAT(
      with([](GgufWriter& f) { f.U32("tokenizer.ggml.padding_token_id", 12); }),
      StatusIs(kInvalid, HasSubstr("padding_token_id 12 is not below the vocabulary's size 12")));

  GgufWriter other;
  other.String("general.architecture", "bloom");
  EXPECT_THAT(OpenModel(other),
              StatusIs(kUnimplemented, HasSubstr("x.gguf: general.architecture: 'bloom' is not "
                                                 "supported; supported: llama, smollm3, ")));
  GgufWriter empty;
  EXPECT_THAT(OpenModel(empty), StatusIs(kNotFound, HasSubstr("general.architecture: missing")));
  empty.String("general.architecture", "llama");
  EXPECT_THAT(OpenModel(empty), StatusIs(kInvalid, HasSubstr("token_embd.weight is missing")));
  empty.FloatTensor("token_embd.weight", {4, 2}, std::vector<float>(8));
  EXPECT_THAT(OpenModel(empty), StatusIs(kNotFound, HasSubstr("llama.embedding_length: missing")));
  empty.U32("llama.vocab_size", 5);
  EXPECT_THAT(
      OpenModel(empty),
      StatusIs(kInvalid, HasSubstr("llama.vocab_size is 5 but token_embd.weight has 4 rows")));
  GgufWriter crowded;
  crowded.String("general.architecture", "llama");
  crowded.FloatTensor("token_embd.weight", {2, 2}, std::vector<float>(4));
  crowded.Strings("tokenizer.ggml.tokens", {"a", "b", "c"});
  EXPECT_THAT(
      OpenModel(crowded),
      StatusIs(kInvalid,
               HasSubstr("tokenizer.ggml.tokens has 3 tokens but token_embd.weight only 2 rows")));
}

}  // namespace
}  // namespace moonring::model
