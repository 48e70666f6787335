// Requests of losses, and results. The second source are bytes that the SDK's own protobuf classes
// wrote (record_messages.py).

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lua/serve/loss_reader.h"
#include "lua/serve/result_json.h"
#include "lua/serve/results.h"
#include "lua/serve/wire.h"

namespace moonring::serve {
namespace {

using ::testing::HasSubstr;

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

LossRequest Recorded(const std::string& name) {
  const bool is_json = name.find(".json") != std::string::npos;
  auto request = ReadLossRequest(ReadBytes("tests/fuzz/corpus/loss_request/" + name),
                                 is_json ? "application/json" : "application/x-protobuf");
  EXPECT_TRUE(request.ok()) << request.status();
  return request.ok() ? *std::move(request) : LossRequest{};
}

template <typename T>
std::vector<T> Numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous().view(-1);
  return {flat.data_ptr<T>(), flat.data_ptr<T>() + flat.numel()};
}

std::string Refusal(const std::string& body, const std::string& type = "") {
  const auto request = ReadLossRequest(body, type);
  EXPECT_FALSE(request.ok());
  return request.ok() ? "" : std::string(request.status().message());
}

TEST(LossRequest, ReadsWhatTheSdkWrites) {
  const LossRequest request = Recorded("dense.bin");
  EXPECT_EQ(request.model_id, "session:train:0");
  EXPECT_EQ(request.seq_id, 2);
  EXPECT_EQ(request.loss_fn, "ppo");
  EXPECT_TRUE(request.forward_only);
  ASSERT_EQ(request.config.size(), 2u);
  EXPECT_EQ(std::get<double>(request.config.at("clip_low_threshold")), 0.8);  // of the newer map
  EXPECT_EQ(std::get<std::string>(request.config.at("mode")), "exact");
  ASSERT_EQ(request.data.size(), 2u);
  const LossDatum& first = request.data[0];
  EXPECT_EQ(Numbers<int64_t>(first.tokens_N), (std::vector<int64_t>{5, 6, 7}));
  EXPECT_EQ(first.inputs.at("target_tokens").sizes(), (at::IntArrayRef{3, 2}));
  EXPECT_EQ(Numbers<int64_t>(first.inputs.at("target_tokens")),
            (std::vector<int64_t>{6, 1, 7, 2, 8, 3}));
  EXPECT_EQ(Numbers<float>(first.inputs.at("weights")),
            (std::vector<float>{0, 1, -1.5, 0.25, 1e-3f, 2}));
  // int32 and bfloat16 are widened.
  const LossDatum& second = request.data[1];
  EXPECT_EQ(Numbers<int64_t>(second.tokens_N), (std::vector<int64_t>{2147483647}));
  EXPECT_EQ(Numbers<int64_t>(second.inputs.at("target_tokens")), (std::vector<int64_t>{9}));
  EXPECT_EQ(Numbers<float>(second.inputs.at("weights")), (std::vector<float>{1.5}));
}

TEST(LossRequest, MakesSparseTensorsDense) {
  for (const char* name : {"sparse.bin", "sparse.json"}) {
    const LossRequest request = Recorded(name);
    EXPECT_EQ(request.model_id, "a:train:1");
    EXPECT_EQ(request.forward_only, std::string(name) == "sparse.json");  // forward_input
    ASSERT_EQ(request.data.size(), 1u);
    EXPECT_TRUE(request.data[0]
                    .inputs.at("target_tokens")
                    .equal(at::tensor({0, 4, 0, 0, 0, 0, 5, 0, 6}, at::kLong).view({3, 3})));
  }
  const LossRequest request = Recorded("sparse.bin");
  EXPECT_EQ(std::get<double>(request.config.at("beta")), 0.05);  // of the older map
  EXPECT_TRUE(request.data[0].inputs.at("weights").equal(
      at::tensor({0., .5, 0., 0., 0., 0., .25, 0., .125}, at::kFloat).view({3, 3})));
}

TEST(LossRequest, BothFormsAreEqual) {
  const LossRequest a = Recorded("dense.bin"), b = Recorded("dense.json");
  EXPECT_EQ(a.model_id, b.model_id);
  EXPECT_EQ(a.config, b.config);
  ASSERT_EQ(b.data.size(), 1u);
  for (const char* name : {"target_tokens", "weights"})
    EXPECT_TRUE(a.data[0].inputs.at(name).equal(b.data[0].inputs.at(name))) << name;
}

TEST(LossRequest, RefusesPictures) {
  const auto request = ReadLossRequest(ReadBytes("tests/fuzz/corpus/loss_request/picture.bin"), "");
  EXPECT_EQ(request.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(request.status().message()),
              HasSubstr("data[0]: model_input[0]: a pict"));
}

// A request with one datum, whose one input is given.
struct Given {
  std::string tokens = std::string("\5\0\0\0\6\0\0\0", 8);
  std::string dense = std::string("\0\0\0\0\0\0\x80\x3f", 8);  // 0 and 1
  std::string rows, columns;                                   // sparse if not empty
  uint64_t dtype = 1;
  std::vector<int64_t> shape = {2};
  int inputs = 1;

  std::string Body() const {
    WireWriter text, chunk, tensor, datum, request;
    text.Bytes(1, tokens);
    chunk.Message(1, text.Take());
    datum.Message(1, chunk.Take());
    if (rows.empty()) {
      tensor.Bytes(1, dense);
    } else {
      WireWriter sparse;
      sparse.Bytes(1, dense);
      sparse.Bytes(2, rows);
      sparse.Bytes(3, columns);
      tensor.Message(2, sparse.Take());
    }
    tensor.Varint(3, dtype);
    tensor.PackedIntegers(4, shape);
    const std::string bytes = tensor.Take();
    for (int i = 0; i < inputs; ++i) {
      WireWriter entry;
      entry.Bytes(1, "weights" + std::string(static_cast<size_t>(i), '_'));
      entry.Message(2, bytes);
      datum.Message(2, entry.Take());
    }
    request.Bytes(1, "m:train:0");
    request.Varint(2, 1);
    request.Message(3, datum.Take());
    request.Bytes(4, "cross_entropy");
    return request.Take();
  }
};

template <typename T>
std::string Bytes(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST(LossRequest, SaysWhatIsWrong) {
  ASSERT_TRUE(ReadLossRequest(Given{}.Body(), "").ok());
  const std::vector<std::pair<Given, std::string>> cases = {
      {{.shape = {3}},
       "data[0]: loss_fn_inputs.weights: 8 bytes are 2 numbers of float32, but its shape [3] has "
       "3"},
      {{.shape = {-1, -2}}, "no tensor has the shape [-1, -2]"},
      {{.shape = {int64_t{1} << 40, int64_t{1} << 40}}, "no tensor has the shape"},
      {{.shape = std::vector<int64_t>(9, 1)}, "expected at most 8 numbers"},
      {{.dense = "abc"}, "3 bytes are no whole number of float32"},
      {{.dtype = 5}, "dtype 5; expected 1 (float32), 2 (int64), 3 (int32) or 4 (bfloat16)"},
      {{.dtype = 0}, "dtype 0"},
      {{.tokens = ""}, "data[0]: model_input: has no tokens"},
      {{.tokens = "abc"}, "tokens: 3 bytes are no whole number of int32"},
      {{.tokens = Bytes<int32_t>({1, -7})}, "model_input: token 1 is -7; expected an id from 0"},
      {{.dense = Bytes<float>({1, std::nanf("")})}, "number 1 is nan; expected finite numbers"},
      {{.dense = Bytes<float>({-INFINITY, 1})}, "number 0 is -inf"},
      {{.inputs = 17}, "loss_fn_inputs: expected at most 16 names"},
      {{.rows = Bytes<int64_t>({0, 2}), .columns = Bytes<int64_t>({0, 1}), .shape = {2}},
       "expected a shape of rows and columns for a sparse tensor, got [2]"},
      {{.rows = Bytes<int64_t>({0, 2}), .columns = Bytes<int64_t>({0, 1}), .shape = {2, 2}},
       "crow_indices has 2 numbers; expected 3 for 2 rows"},
      {{.rows = Bytes<int64_t>({0, 1}), .columns = Bytes<int64_t>({0, 1}), .shape = {1, 2}},
       "crow_indices runs from 0 to 1; expected 0 to 2"},
      {{.rows = Bytes<int64_t>({0, 5, 2}), .columns = Bytes<int64_t>({0, 1}), .shape = {2, 2}},
       "crow_indices falls from 5 to 2 at row 1"},
      {{.rows = Bytes<int64_t>({0, 2}), .columns = Bytes<int64_t>({0, 2}), .shape = {1, 2}},
       "col_indices has 2; expected 0 to 1 for 2 columns"},
      {{.rows = Bytes<int64_t>({0, 2}),
        .columns = Bytes<int64_t>({0, 1}),
        .shape = {1, int64_t{1} << 40}},
       "the shape [1, 1099511627776] exceeds that"},
  };
  for (const auto& [given, wanted] : cases)
    EXPECT_THAT(Refusal(given.Body()), HasSubstr(wanted)) << wanted;
}

TEST(LossRequest, RefusesEachTruncation) {
  const std::string body = ReadBytes("tests/fuzz/corpus/loss_request/sparse.bin");
  size_t refused = 0;
  for (size_t size = 0; size < body.size(); ++size) {
    const auto request = ReadLossRequest(body.substr(0, size), "");
    refused += request.ok() ? 0 : 1;
    if (!request.ok()) {
      EXPECT_FALSE(request.status().message().empty());
    }
  }
  // The map behind loss_fn may be cut off whole.
  EXPECT_GE(refused, body.size() - 2);
}

TEST(Wire, SkipsWhatItDoesNotKnow) {
  // A group (field 9) with an integer and a nested group in it, fixed numbers, then field 1.
  const std::string bytes(
      "\x4b\x08\x01\x53\x54\x4c\x11"
      "12345678"
      "\x1d"
      "1234"
      "\x0a\x01x",
      23);
  WireReader reader(bytes);
  WireField field;
  std::vector<int> numbers;
  while (true) {
    const auto more = reader.Next(field);
    ASSERT_TRUE(more.ok()) << more.status();
    if (!*more) break;
    numbers.push_back(field.number);
  }
  EXPECT_EQ(numbers, (std::vector<int>{2, 3, 1}));
  EXPECT_EQ(field.bytes, "x");
}

TEST(Wire, RefusesWhatIsNotAMessage) {
  const std::string deep(40, '\x4b');
  for (const std::string& bytes :
       {std::string("\x08"), std::string("\x08\x80"), std::string(10, '\xff') + "\x01",
        std::string("\x0a\x05"
                    "abc"),
        std::string("\x09"
                    "1234"),
        std::string("\x00\x01", 2), std::string("\x0e"), std::string("\x4b\x54"),
        std::string("\x4b"), deep}) {
    WireReader reader(bytes);
    WireField field;
    const auto more = reader.Next(field);
    ASSERT_FALSE(more.ok()) << bytes;
    EXPECT_THAT(std::string(more.status().message()), HasSubstr("not a protobuf message: byte "));
  }
}

TEST(Wire, IntegersMayBePackedOrNot) {
  std::vector<int64_t> values;
  for (const std::string& bytes : {std::string("\x22\x03\x01\xac\x02"), std::string("\x20\x05")}) {
    WireReader reader(bytes);
    WireField field;
    ASSERT_TRUE(*reader.Next(field));
    ASSERT_TRUE(AppendIntegers(field, 3, values).ok());
  }
  EXPECT_EQ(values, (std::vector<int64_t>{1, 300, 5}));
  EXPECT_FALSE(AppendIntegers({.number = 4, .value = 1}, 3, values).ok());
}

TEST(Results, LossesAreTheSdksBytes) {
  const std::vector<LossOutput> outputs = {
      {{"logprobs", at::tensor({-0.5f, -1.25f})}},
      {{"logprobs", at::tensor({-3.0})}},  // fp64 becomes float32
      {{"logprobs", at::tensor({-1.f, -2.f, -3.f, -4.f, -5.f, 0.f}).view({2, 3})}}};
  const auto bytes = WriteLossResult({{"loss:sum", 21.5}, {"ratio_error:max", 0}}, outputs);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, ReadBytes("tests/lua/serve/recorded/loss_result.bin"));
}

TEST(Results, SamplesAreTheSdksBytes) {
  SampleResult result;
  result.prompt_log_probs = {std::nanf(""), -0.5, -0.25};
  result.prompt_cache_hit_tokens = 2;
  result.sequences = {{.tokens = {5, 2},
                       .log_probs = {-0.5, -2},
                       .top = TopTokens{.k = 2,
                                        .length = 2,
                                        .ids = {5, 7, 2, 0},
                                        .log_probs = {-0.5, -1.5, -2, kEmptyCell}}},
                      {.tokens = {7}, .log_probs = {-1.5}, .ended_by_length = true}};
  result.top_prompt =
      TopTokens{.k = 1, .length = 3, .ids = {0, 6, 7}, .log_probs = {kEmptyCell, -0.5, -0.25}};
  result.target_prompt_log_probs = at::tensor({-0.5f, -0.25f}).view({2, 1});
  result.alt_tokens = at::tensor({8, 9}, at::kLong);
  result.alt_log_probs = at::tensor({-3.f, -4.f});
  const auto bytes = WriteSampleResult(result);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, ReadBytes("tests/lua/serve/recorded/sample_result.bin"));
}

TEST(Results, LossesAsJson) {
  const auto json = LossResultJson(ReadBytes("tests/lua/serve/recorded/loss_result.bin"));
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(*json, Json::parse(R"({"loss_fn_output_type": "ArrayRecord",
    "metrics": {"loss:sum": 21.5, "ratio_error:max": 0.0},
    "loss_fn_outputs": [
      {"logprobs": {"data": [-0.5, -1.25], "dtype": "float32", "shape": [2]}},
      {"logprobs": {"data": [-3.0], "dtype": "float32", "shape": [1]}},
      {"logprobs": {"data": [-1.0, -2.0, -3.0, -4.0, -5.0, 0.0], "dtype": "float32",
                    "shape": [2, 3]}}]})"));
}

TEST(Results, SamplesAsJson) {
  const auto json = SampleResultJson(ReadBytes("tests/lua/serve/recorded/sample_result.bin"));
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(*json, Json::parse(R"({"type": "sample",
    "prompt_logprobs": [null, -0.5, -0.25], "prompt_cache_hit_tokens": 2,
    "topk_prompt_logprobs": [null, [[6, -0.5]], [[7, -0.25]]],
    "target_prompt_logprobs": {"data": [-0.5, -0.25], "dtype": "float32", "shape": [2, 1]},
    "sequences": [
      {"tokens": [5, 2], "logprobs": [-0.5, -2.0], "stop_reason": "stop",
       "topk_logprobs": [[[5, -0.5], [7, -1.5]], [[2, -2.0]]]},
      {"tokens": [7], "logprobs": [-1.5], "stop_reason": "length", "topk_logprobs": null}]})"));
}

TEST(Results, JsonOfDamagedBytesIsAnErrorOrJson) {
  const std::string bytes = ReadBytes("tests/lua/serve/recorded/loss_result.bin");
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x55);
    (void)LossResultJson(changed);
    (void)SampleResultJson(changed);
    (void)LossResultJson(bytes.substr(0, i));
  }
}

TEST(Results, RefusesWhatTheSdkWouldNotRead) {
  const auto message = [](const auto& result) { return std::string(result.status().message()); };
  const LossOutput output = {{"logprobs", at::tensor({1.f})}};
  for (const char* name : {"loss", "loss:", ":sum", "loss:total", "a:b:sum"})
    EXPECT_THAT(message(WriteLossResult({{name, 1}}, {output})), HasSubstr("expected NAME:mean|"));
  EXPECT_THAT(message(WriteLossResult({{"loss:sum", std::nan("")}}, {output})),
              HasSubstr("loss:sum: expected a finite number"));
  EXPECT_THAT(message(WriteLossResult({}, {output, {{"other", at::tensor({1.f})}}})),
              HasSubstr("datum 1 has the fields other; datum 0 has logprobs"));
  EXPECT_THAT(message(WriteLossResult({}, {{{"logprobs", at::scalar_tensor(1)}}})),
              HasSubstr("expected real numbers of [N, ..]"));
  SampleResult result;
  result.sequences = {{.tokens = {1, 2}, .log_probs = {-1}}};
  EXPECT_THAT(message(WriteSampleResult(result)), HasSubstr("sequence 0: 2 tokens, but 1 log-"));
}

}  // namespace
}  // namespace moonring::serve
