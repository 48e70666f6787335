#include "model/sampler.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "mixers/over_ranks/local_mixing.h"
#include "model/config/weights.h"
#include "nlohmann/json.hpp"
#include "tests/model/small_config.h"
#include "tests/testing/all_close.h"
#include "tests/testing/masked_attention.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::MaskedAttention;
using ::moonring::testing::ParsedConfig;
using ::moonring::testing::RelativeError;
using ::moonring::testing::SmallJson;
using ::moonring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::unique_ptr<Transformer> RandomModel(at::ScalarType dtype, int64_t positions = 2048,
                                         int64_t window = 0) {
  ModelConfig config = ParsedConfig(SmallJson({{"vocab_size", 61},
                                               {"hidden_size", 32},
                                               {"intermediate_size", 48},
                                               {"num_hidden_layers", 3},
                                               {"tie_word_embeddings", false},
                                               {"max_position_embeddings", positions}}));
  for (LayerRule& layer : config.layer_rules) layer.window = window;
  at::manual_seed(9);
  base::Parameters parameters;
  for (const WeightShape& weight : WantedWeights(config)) {
    parameters.push_back(std::make_shared<base::Parameter>(
        weight.name, (at::randn(weight.shape, at::kDouble) * 0.4).to(dtype)));
  }
  const at::ScalarType weights = dtype;
  return Transformer::Create(config, std::move(parameters),
                             {.weight_dtype = weights, .matmul_dtype = dtype})
      .value();
}

// Returns a model with softmax attention and another mixer. Its weights are random, such that heads
// remember about ten tokens.
std::unique_ptr<Transformer> MixedModel(const nlohmann::json& family, at::ScalarType dtype) {
  nlohmann::json changes = {{"vocab_size", 61},
                            {"hidden_size", 32},
                            {"intermediate_size", 48},
                            {"num_hidden_layers", 3},
                            {"tie_word_embeddings", false},
                            {"max_position_embeddings", 2048}};
  changes.update(family);
  const ModelConfig config = ParsedConfig(SmallJson(changes));
  EXPECT_LT(config.layers_keeping(MixerCache::kKeys), 3);
  at::manual_seed(9);
  base::Parameters parameters;
  for (const WeightShape& weight : WantedWeights(config)) {
    const double shift = absl::EndsWith(weight.name, "A_log") ? -2.0 : 0.0;
    parameters.push_back(std::make_shared<base::Parameter>(
        weight.name, (at::randn(weight.shape, at::kDouble) * 0.4 + shift).to(dtype)));
  }
  return Transformer::Create(config, std::move(parameters),
                             {.weight_dtype = dtype, .matmul_dtype = dtype})
      .value();
}

nlohmann::json LinearAttention() {
  return {{"architectures", {"Qwen3_5ForCausalLM"}},
          {"model_type", "qwen3_5_text"},
          {"head_dim", 16},
          {"linear_num_key_heads", 2},
          {"linear_num_value_heads", 4},
          {"linear_key_head_dim", 6},
          {"linear_value_head_dim", 8},
          {"layer_types", {"linear_attention", "full_attention", "linear_attention"}}};
}

// A family with one decay per channel, and with multi-head latent attention.
nlohmann::json ChannelDecay() {
  return {{"architectures", {"KimiLinearForCausalLM"}},
          {"model_type", "kimi_linear"},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 4},
          {"qk_nope_head_dim", 8},
          {"qk_rope_head_dim", 4},
          {"v_head_dim", 6},
          {"kv_lora_rank", 12},
          {"model_max_length", 2048},
          {"first_k_dense_replace", 3},
          {"linear_attn_config",
           {{"full_attn_layers", {2}}, {"kda_layers", {1, 3}}, {"num_heads", 3}, {"head_dim", 8}}}};
}

nlohmann::json StateSpaces() {
  return {{"architectures", {"GraniteMoeHybridForCausalLM"}},
          {"model_type", "granitemoehybrid"},
          {"layer_types", {"mamba", "attention", "mamba"}},
          {"num_local_experts", 0},
          {"shared_intermediate_size", 48},
          {"mamba_n_heads", 8},
          {"mamba_n_groups", 2},
          {"mamba_d_state", 6}};
}

nlohmann::json Convolutions(const std::vector<int64_t>& attending) {
  return {{"architectures", {"Lfm2ForCausalLM"}},
          {"model_type", "lfm2"},
          {"block_auto_adjust_ff_dim", false},
          {"full_attn_idxs", attending}};
}

// A family in which each layer is half a block: a mixer or a feed-forward.
nlohmann::json Halves(const std::string& pattern) {
  return {{"architectures", {"NemotronHForCausalLM"}},
          {"model_type", "nemotron_h"},
          {"hybrid_override_pattern", pattern},
          {"head_dim", 8},
          {"mamba_num_heads", 8},
          {"mamba_head_dim", 6},
          {"n_groups", 2},
          {"ssm_state_size", 5}};
}

std::vector<int64_t> RandomIds(int64_t count) {
  const at::Tensor ids = at::randint(61, {count}, at::kLong);
  return {ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + count};
}

// Returns the logits of the last token, computed by a forward of all tokens with another
// implementation of attention.
at::Tensor Recomputed(Transformer& model, const std::vector<int64_t>& ids) {
  at::NoGradGuard no_grad;
  const auto count = static_cast<int64_t>(ids.size());
  const auto attention = std::make_shared<MaskedAttention>(std::vector<int64_t>{count});
  const ForwardOptions options{
      .mixing = std::make_shared<mixers::LocalMixing>(std::vector<int64_t>{count})};
  const at::Tensor hidden =
      model.Forward(at::tensor(ids, at::kLong), at::arange(count, at::kLong), attention, options)
          .hidden_TD;
  const at::ScalarType dtype = model.options().matmul_dtype;
  return at::linear(hidden[count - 1].to(dtype), model.head()->Lease(dtype))
      .to(hidden.scalar_type());
}

TEST(SamplerTest, TheCacheGivesWhatAForwardGives) {
  // Bounds. fp64 and fp32: sums in another order. bf16: keys and values are rounded equally, but
  // the softmax is not.
  for (const auto& [dtype, bound] : {std::pair{at::kDouble, 1e-13}, std::pair{at::kFloat, 1e-5},
                                     std::pair{at::kBFloat16, 3e-2}}) {
    SCOPED_TRACE(dtype);
    const auto model = RandomModel(dtype);
    Sampler sampler(*model);
    std::vector<int64_t> ids = RandomIds(5);
    // In turn: a prompt, single tokens until the cache grows, several tokens after cached keys,
    // another continuation, a prefix, and the same text again.
    for (const int64_t length : {5, 6, 7, 8, 40, 41, 300, 301}) {
      const std::vector<int64_t> more = RandomIds(length - static_cast<int64_t>(ids.size()));
      ids.insert(ids.end(), more.begin(), more.end());
      ASSERT_OK_AND_ASSIGN(const at::Tensor logits, sampler.NextLogits(ids));
      EXPECT_TRUE(RelativeError(logits, Recomputed(*model, ids), bound)) << length;
    }
    ids[20] = (ids[20] + 1) % 61;
    ASSERT_OK_AND_ASSIGN(const at::Tensor branch, sampler.NextLogits(ids));
    EXPECT_TRUE(RelativeError(branch, Recomputed(*model, ids), bound));
    ids.resize(11);
    ASSERT_OK_AND_ASSIGN(const at::Tensor prefix, sampler.NextLogits(ids));
    EXPECT_TRUE(RelativeError(prefix, Recomputed(*model, ids), bound));
    ASSERT_OK_AND_ASSIGN(const at::Tensor again, sampler.NextLogits(ids));
    EXPECT_TRUE(BitEqual(again, sampler.NextLogits(ids).value()));
  }
}

TEST(SamplerTest, MixersStateGivesWhatAForwardGives) {
  const std::vector<int64_t> first = {0}, none;
  for (const nlohmann::json& family :
       {LinearAttention(), ChannelDecay(), StateSpaces(), Convolutions(first), Convolutions(none),
        Halves("M*-"), Halves("*-*"), Halves("-MM")}) {
    SCOPED_TRACE(family.dump());
    const auto model = MixedModel(family, at::kDouble);
    Sampler sampler(*model);
    std::vector<int64_t> ids = RandomIds(5);
    const auto same = [&] {
      const auto logits = sampler.NextLogits(ids);
      ASSERT_OK(logits);
      EXPECT_TRUE(RelativeError(*logits, Recomputed(*model, ids), 1e-11)) << ids.size();
    };
    const auto grow = [&](int64_t length) {
      const std::vector<int64_t> more = RandomIds(length - static_cast<int64_t>(ids.size()));
      ids.insert(ids.end(), more.begin(), more.end());
      same();
    };
    // In turn: a prompt, single tokens, the next turn of a conversation, and a prompt in pieces.
    for (const int64_t length : {5, 6, 7, 8, 40, 41, 42, 1200, 1201}) grow(length);
    // In turn: the last prompt again; another end of it; the prompt before (its state is kept); a
    // text that differs inside that prompt (computed from the beginning); one token; and its
    // continuation.
    ids.resize(1200);
    same();
    ids.back() = (ids.back() + 1) % 61;
    same();
    ids.resize(45);
    same();
    ids.resize(40);
    same();
    ids[3] = (ids[3] + 1) % 61;
    same();
    ids.resize(1);
    same();
    for (const int64_t length : {2, 3, 30, 31}) grow(length);
  }
}

// If a text returns to the end of the prompt, only the prompt's last token is computed again.
TEST(SamplerTest, APromptAgainRunsItsLastToken) {
  const auto model = MixedModel(LinearAttention(), at::kFloat);
  std::vector<int64_t> rows;
  Sampler sampler(*model, [&](int64_t layer, absl::string_view, const at::Tensor& hidden_TD) {
    if (layer == 0) rows.push_back(hidden_TD.size(0));
    return at::Tensor();
  });
  const std::vector<int64_t> prompt = RandomIds(30);
  ASSERT_OK_AND_ASSIGN(const auto once, sampler.Generate(prompt, {.max_new_tokens = 3}));
  EXPECT_THAT(rows, ElementsAre(29, 1, 1, 1));
  rows.clear();
  ASSERT_OK_AND_ASSIGN(const auto again, sampler.Generate(prompt, {.max_new_tokens = 3}));
  EXPECT_THAT(rows, ElementsAre(1, 1, 1));
  EXPECT_EQ(once, again);
  rows.clear();
  std::vector<int64_t> turn = prompt;
  turn.insert(turn.end(), once.begin(), once.end());
  turn.insert(turn.end(), {7, 8, 9});
  ASSERT_OK(sampler.NextLogits(turn));
  EXPECT_THAT(rows, ElementsAre(3, 1)) << "the last generated token and the new ones";
}

TEST(SamplerTest, ALongPromptGoesInParts) {
  const auto model = RandomModel(at::kDouble);
  const std::vector<int64_t> ids = RandomIds(1100);
  ASSERT_OK_AND_ASSIGN(const at::Tensor logits, Sampler(*model).NextLogits(ids));
  EXPECT_TRUE(RelativeError(logits, Recomputed(*model, ids), 1e-12));
}

TEST(SamplerTest, ForgetSeesChangedWeights) {
  const auto model = RandomModel(at::kDouble);
  Sampler sampler(*model);
  const std::vector<int64_t> ids = RandomIds(9);
  ASSERT_OK(sampler.NextLogits(ids));
  for (const auto& parameter : model->parameters()) parameter->weight().mul_(1.1);
  sampler.Forget();
  ASSERT_OK_AND_ASSIGN(const at::Tensor logits, sampler.NextLogits(ids));
  EXPECT_TRUE(RelativeError(logits, Recomputed(*model, ids), 1e-13));
}

TEST(SamplerTest, GreedyIsTheArgmaxOfEachForward) {
  const auto model = RandomModel(at::kDouble);
  std::vector<int64_t> ids = RandomIds(7), wanted, seen;
  ASSERT_OK_AND_ASSIGN(const std::vector<int64_t> made,
                       Sampler(*model).Generate(ids, {.max_new_tokens = 12}, [&](int64_t id) {
                         seen.push_back(id);
                         return true;
                       }));
  for (int i = 0; i < 12; ++i) {
    wanted.push_back(Recomputed(*model, ids).argmax().item<int64_t>());
    ids.push_back(wanted.back());
  }
  EXPECT_EQ(made, wanted);
  EXPECT_EQ(seen, wanted);
}

TEST(SamplerTest, WhatEndsIt) {
  const auto model = RandomModel(at::kDouble, /*positions=*/20);
  Sampler sampler(*model);
  const std::vector<int64_t> prompt = RandomIds(7);
  ASSERT_OK_AND_ASSIGN(const std::vector<int64_t> all,
                       sampler.Generate(prompt, {.max_new_tokens = 100, .temperature = 5.0}));
  EXPECT_EQ(all.size(), 14);  // 13 fill all positions; one more is predicted from the last
  int calls = 0;
  ASSERT_OK_AND_ASSIGN(
      const std::vector<int64_t> stopped,
      sampler.Generate(prompt,
                       {.max_new_tokens = 100, .temperature = 5.0, .stop_ids = {999, all[3]}},
                       [&](int64_t) { return ++calls > 0; }));
  const auto first = std::find(all.begin(), all.end(), all[3]);
  EXPECT_EQ(stopped, std::vector<int64_t>(all.begin(), first + 1));
  EXPECT_EQ(calls, first - all.begin());
  ASSERT_OK_AND_ASSIGN(const std::vector<int64_t> broken,
                       sampler.Generate(prompt, {.max_new_tokens = 9, .temperature = 5.0},
                                        [](int64_t) { return false; }));
  EXPECT_THAT(broken, ElementsAre(all[0]));
  ASSERT_OK_AND_ASSIGN(const std::vector<int64_t> none,
                       sampler.Generate(prompt, {.max_new_tokens = 0}));
  EXPECT_THAT(none, IsEmpty());
}

TEST(SamplerTest, DrawsDependOnTheSeedAlone) {
  const auto model = RandomModel(at::kDouble);
  const std::vector<int64_t> prompt = RandomIds(7);
  const auto draw = [&](Sampler& sampler, uint64_t seed) {
    return sampler.Generate(prompt, {.max_new_tokens = 20, .temperature = 3.0, .seed = seed})
        .value();
  };
  Sampler one(*model), other(*model);
  const auto first = draw(one, 1);
  draw(other, 2);
  EXPECT_EQ(draw(other, 1), first);
  EXPECT_NE(draw(one, 2), first);
}

TEST(SamplerTest, BadInput) {
  const auto model = RandomModel(at::kFloat, /*positions=*/20);
  Sampler sampler(*model);
  const auto status = [&](const std::vector<int64_t>& prompt, const SamplingOptions& options) {
    return sampler.Generate(prompt, options).status();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(status({}, {}), StatusIs(invalid, HasSubstr("no tokens")));
  EXPECT_THAT(status({61}, {}), StatusIs(invalid, HasSubstr("token id 61, the vocabulary has 61")));
  EXPECT_THAT(status(RandomIds(21), {}),
              StatusIs(invalid, HasSubstr("21 tokens, the model has positions for 20")));
  EXPECT_THAT(status({1}, {.max_new_tokens = -1}),
              StatusIs(invalid, HasSubstr("max_new_tokens is -1")));
  EXPECT_THAT(status({1}, {.temperature = -0.5}),
              StatusIs(invalid, HasSubstr("temperature is -0.5")));
  EXPECT_THAT(status({1}, {.temperature = std::nan("")}),
              StatusIs(invalid, HasSubstr("temperature")));
  EXPECT_THAT(status({1}, {.top_k = -1}), StatusIs(invalid, HasSubstr("top_k is -1")));
  EXPECT_THAT(status({1}, {.top_p = 0.0}), StatusIs(invalid, HasSubstr("top_p is 0")));
  EXPECT_THAT(status({1}, {.repetition_penalty = 0.0}),
              StatusIs(invalid, HasSubstr("repetition_penalty is 0")));
}

// Returns the share of each id among 20000 tokens sampled from these logits.
std::map<int64_t, double> Shares(const std::vector<double>& logits, SamplingOptions options,
                                 const std::vector<int64_t>& ids = {}) {
  constexpr int kDraws = 20000;
  const at::Tensor row = at::tensor(logits, at::kDouble);
  std::map<int64_t, double> shares;
  for (int i = 0; i < kDraws; ++i) shares[ChooseToken(row, ids, options, i)] += 1.0 / kDraws;
  return shares;
}

// The bound for a share p among 20000 samples: four standard deviations, sqrt(p (1 - p) / 20000) <=
// 0.0036 each.
constexpr double kStray = 0.0145;
const std::vector<double> kLogits = {std::log(0.1), std::log(0.4), std::log(0.2), std::log(0.3)};

void ExpectShares(const std::map<int64_t, double>& shares,
                  const std::map<int64_t, double>& wanted) {
  for (const auto& [id, share] : shares) {
    ASSERT_TRUE(wanted.count(id)) << "id " << id;
    EXPECT_NEAR(share, wanted.at(id), kStray) << "id " << id;
  }
  EXPECT_EQ(shares.size(), wanted.size());
}

TEST(ChooseTokenTest, Temperature) {
  ExpectShares(Shares(kLogits, {.temperature = 1.0}), {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
  ExpectShares(Shares(kLogits, {.temperature = 0.5}),
               {{0, 1 / 30.0}, {1, 16 / 30.0}, {2, 4 / 30.0}, {3, 9 / 30.0}});
}

TEST(ChooseTokenTest, TopKAndTopP) {
  ExpectShares(Shares(kLogits, {.temperature = 1.0, .top_k = 2}), {{1, 4 / 7.0}, {3, 3 / 7.0}});
  ExpectShares(Shares(kLogits, {.temperature = 1.0, .top_k = 99}),
               {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
  ExpectShares(Shares(kLogits, {.temperature = 1.0, .top_p = 0.75}),
               {{1, 4 / 9.0}, {2, 2 / 9.0}, {3, 3 / 9.0}});
  ExpectShares(Shares(kLogits, {.temperature = 1.0, .top_p = 0.01}), {{1, 1.0}});
  // top_k is applied first: of the two tokens left, 0.4 and 0.3, the first has a share of 4/7 >
  // top_p.
  ExpectShares(Shares(kLogits, {.temperature = 1.0, .top_k = 2, .top_p = 0.5}), {{1, 1.0}});
}

TEST(ChooseTokenTest, RepetitionPenalty) {
  const at::Tensor row = at::tensor({1.0, 1.2, -0.5, -0.6}, at::kDouble);
  const auto choose = [&](const std::vector<int64_t>& ids) {
    return ChooseToken(row, ids, {.repetition_penalty = 1.5}, 0);
  };
  EXPECT_EQ(choose({}), 1);
  EXPECT_EQ(choose({1, 1}), 0);  // 0.8, applied once
  EXPECT_EQ(choose({0, 1}), 1);
  const at::Tensor negative = at::tensor({-1.0, -1.2}, at::kDouble);
  EXPECT_EQ(ChooseToken(negative, {{0}}, {.repetition_penalty = 1.5}, 0), 1);
}

TEST(ChooseTokenTest, TiesGoToTheFirst) {
  EXPECT_EQ(ChooseToken(at::tensor({0.5f, 2.0f, 2.0f}), {}, {}, 0), 1);
}

TEST(ChooseTokenTest, NaNIsAnError) {
  EXPECT_THROW(ChooseToken(at::tensor({0.0, std::nan("")}, at::kDouble), {}, {}, 0), c10::Error);
}

}  // namespace
}  // namespace moonring::model
