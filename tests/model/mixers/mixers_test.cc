// Tests for every mixer (the step of a layer in which tokens interact: attention, the gated delta
// rule, ...) what its interface promises (model/config/mixer.h): its documents are independent,
// decoding in pieces gives the same result, its gradients are right, and it uses the weights that
// it declares. In fp64. Whether the results are those of Transformers is tested in
// tests/model/families.

#include "model/mixers/mixers.h"

#include <cmath>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "absl/algorithm/container.h"
#include "mixers/cache/mixing_cache.h"
#include "mixers/over_ranks/local_mixing.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rows.h"
#include "model/blocks/block_rule.h"
#include "model/config/config.h"
#include "model/config/family.h"
#include "tests/testing/all_close.h"
#include "tests/testing/finite_differences.h"
#include "tests/testing/masked_attention.h"

namespace moonring::model {
namespace {

using ::moonring::testing::kDifferenceBound;
using ::moonring::testing::MaskedAttention;
using ::moonring::testing::RelativeError;

// A mixer with the weights of one family, and the properties that the family sets. Together the
// cases of a mixer use all of its weights.
struct MixerCase {
  const Mixer* mixer;
  std::vector<int> weights;
  void (*change)(ModelConfig& config) = [](ModelConfig&) {};
};

void PrintTo(const MixerCase& each, std::ostream* out) { *out << each.mixer->name; }

std::vector<MixerCase> Cases() {
  return {
      {&kSoftmaxAttention, {kQuery, kKey, kValue, kQueryNorm, kKeyNorm, kOutput}},
      {&kSoftmaxAttention, {kQueryKeyValue, kSinks, kOutput}},
      {&kSoftmaxAttention,
       {kQuery, kKey, kValue, kQueryNorm, kKeyNorm, kOutput},
       [](ModelConfig& config) {
         config.gated_heads = true;
         config.head_norm = HeadNorm::kAllHeads;
       }},
      {&kLatentAttention, {kQuery, kKeyValueDown, kKeyValueDownNorm, kKeyValueUp, kOutput}},
      {&kLatentAttention,
       {kQueryDown, kQueryDownNorm, kQueryUp, kKeyValueDown, kKeyValueDownNorm, kKeyValueUp,
        kOutput},
       [](ModelConfig& config) { config.latent.query_rank = 5; }},
      {&kGatedDelta,
       {kDeltaQueryKeyValueGate, kDeltaBetaDecay, kDeltaFilter, kDeltaDecayLog, kDeltaDecayShift,
        kDeltaNorm, kDeltaOutput}},
      {&kGatedDelta,
       {kDeltaQueryKeyValue, kDeltaGate, kDeltaBeta, kDeltaDecay, kDeltaFilter, kDeltaDecayLog,
        kDeltaDecayShift, kDeltaNorm, kDeltaOutput}},
      {&kGatedDelta,
       {kDeltaQuery, kDeltaKey, kDeltaValue, kDeltaQueryFilter, kDeltaKeyFilter, kDeltaValueFilter,
        kDeltaDecayDown, kDeltaDecayUp, kDeltaBeta, kDeltaGateDown, kDeltaGateUp, kDeltaDecayLog,
        kDeltaDecayShift, kDeltaNorm, kDeltaOutput},
       [](ModelConfig& config) {
         config.delta.by_channel = true;
         config.delta.rank = 3;
       }},
      {&kStateSpace,
       {kStateInput, kStateFilter, kStateDecayLog, kStateStepShift, kStateSkip, kStateNorm,
        kStateOutput}},
      {&kGatedConvolution, {kConvolutionInput, kConvolutionFilter, kConvolutionOutput}},
  };
}

// The config of one layer with the mixer.
ModelConfig ConfigOf(const MixerCase& each) {
  static const Family family;
  ModelConfig config;
  config.family = &family;
  config.hidden_size = 10;
  config.layers = 1;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 6;
  config.head_norm = HeadNorm::kEachHead;
  config.qkv_bias = config.output_bias = true;
  config.score_scale = 0.4;
  config.delta = {
      .key_heads = 2, .value_heads = 4, .key_dim = 3, .value_dim = 5, .taps = 3, .norm_eps = 1e-3};
  config.convolution = {.taps = 3, .bias = true};
  config.state_space = {.heads = 4,
                        .head_dim = 3,
                        .groups = 2,
                        .states = 5,
                        .taps = 3,
                        .filter_bias = true,
                        .map_bias = true,
                        .norm_eps = 1e-3};
  config.latent = {.key_value_rank = 7, .plain_dim = 4, .rotary_dim = 2, .value_dim = 5};
  each.change(config);
  config.layer_rules = {
      {.mixer = each.mixer, .kv_heads = config.kv_heads, .head_dim = config.head_dim}};
  return config;
}

// Attention of one document in pieces: it keeps the keys and values of earlier calls.
class GrowingAttention : public attention::PlannedAttention {
 public:
  at::Tensor Forward(const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& v_TKD,
                     const attention::ScoreRule& rule, attention::KeptAttention* kept) override {
    k_SKD_ = k_SKD_.defined() ? at::cat({k_SKD_, k_TKD}) : k_TKD;
    v_SKD_ = v_SKD_.defined() ? at::cat({v_SKD_, v_TKD}) : v_TKD;
    const int64_t before = tokens() - q_THD.size(0);
    const at::Tensor earlier = at::zeros({before, q_THD.size(1), q_THD.size(2)}, q_THD.options());
    return MaskedAttention({tokens()})
        .Forward(at::cat({earlier, q_THD}), k_SKD_, v_SKD_, rule, kept)
        .narrow(0, before, q_THD.size(0));
  }
  int64_t tokens() const { return k_SKD_.defined() ? k_SKD_.size(0) : 0; }

 private:
  at::Tensor k_SKD_, v_SKD_;
};

class MixerTest : public ::testing::TestWithParam<MixerCase> {
 protected:
  MixerTest() : mixer_(*GetParam().mixer), config_(ConfigOf(GetParam())) {
    at::manual_seed(21);
    rule_ = BlockRuleOf(config_, 0, at::kDouble);
    weights_.resize(kBlockWeights);
    const auto draw = [&](int place, std::vector<int64_t> shape) {
      at::Tensor weight = at::randn(shape, at::kDouble) * 0.4;
      if (IsNorm(place)) weight.add_(1.0);
      weights_[place] = weight.requires_grad_();
    };
    draw(kInputNorm, {config_.hidden_size});
    for (const int place : GetParam().weights) draw(place, ShapeAt(place));
    for (int bias = 0; bias < kBlockWeights; ++bias) {
      if (!IsBias(bias) || !weights_[MapOfBias(bias)].defined() || mixer_.biased == nullptr ||
          !mixer_.biased(config_, MapOfBias(bias)))
        continue;
      draw(bias, {weights_[MapOfBias(bias)].size(0)});
    }
    hidden_ = at::randn({20, config_.hidden_size}, at::kDouble).requires_grad_();
  }

  std::vector<int64_t> ShapeAt(int place) const {
    return mixer_.shape(config_, config_.layer_rules[0], place);
  }

  at::Tensor Run(const at::Tensor& hidden_TD, attention::PlannedAttention& attention,
                 mixers::PlannedMixing& mixing) const {
    const BlockMaps maps(weights_);
    const Projection& output = maps.Map(mixer_.output);
    const at::Tensor heads_TC =
        mixer_.run(rule_, maps, hidden_TD, {.mixing = &mixing}, attention, nullptr).heads_TC;
    const at::Tensor out_TD = at::matmul(heads_TC, output.weight_OI.t());
    return output.bias_O.defined() ? out_TD + output.bias_O : out_TD;
  }

  at::Tensor RunDocuments(const at::Tensor& hidden_TD, const std::vector<int64_t>& lengths) const {
    MaskedAttention attention(lengths);
    mixers::LocalMixing mixing(lengths);
    return Run(hidden_TD, attention, mixing);
  }

  const Mixer& mixer_;
  const ModelConfig config_;
  BlockRule rule_;
  std::vector<at::Tensor> weights_;  // indexed by BlockWeight
  at::Tensor hidden_;
};

TEST_P(MixerTest, PackedDocumentsAreIndependent) {
  const at::Tensor together = RunDocuments(hidden_, {7, 1, 12});
  int64_t first = 0;
  for (const int64_t length : {7, 1, 12}) {
    EXPECT_TRUE(RelativeError(RunDocuments(hidden_.narrow(0, first, length), {length}),
                              together.narrow(0, first, length), 1e-12));
    first += length;
  }
  EXPECT_EQ(RunDocuments(hidden_.narrow(0, 0, 0), {}).sizes(),
            at::IntArrayRef({0, config_.hidden_size}));
}

// As in decoding. The mixer keeps what it declares, of the size that follows from its work.
TEST_P(MixerTest, PiecesAreTheWhole) {
  const at::NoGradGuard no_grad;
  GrowingAttention keys;
  mixers::MixingCache states;
  std::vector<at::Tensor> outs;
  for (int64_t begin = 0; const int64_t length : {9, 1, 1, 6, 3}) {
    outs.push_back(Run(hidden_.narrow(0, begin, length), keys, states));
    begin += length;
  }
  EXPECT_TRUE(RelativeError(at::cat(outs), RunDocuments(hidden_, {20}), 1e-12));
  const bool keeps_keys = mixer_.cache == MixerCache::kKeys;
  EXPECT_EQ(keys.tokens(), keeps_keys ? 20 : 0);
  EXPECT_EQ(states.bytes(), keeps_keys ? 0 : 8 * mixer_.work(config_).state());
}

// Gradients along a random direction of the input and of each weight; every weight has an effect.
TEST_P(MixerTest, GradientsAreFiniteDifferences) {
  const at::Tensor dout = at::randn_like(hidden_);
  const auto loss = [&] { return (RunDocuments(hidden_, {7, 1, 12}) * dout).sum(); };
  std::vector<at::Tensor> leaves = {hidden_};
  for (const at::Tensor& weight : weights_) {
    if (weight.defined()) leaves.push_back(weight);
  }
  const auto gradients = torch::autograd::grad({loss()}, leaves);
  for (size_t i = 0; i < leaves.size(); ++i) {
    SCOPED_TRACE(i);
    const at::NoGradGuard no_grad;
    const at::Tensor x = leaves[i].detach(), before = x.clone(), step = at::zeros({1}, at::kDouble);
    at::Tensor direction = at::randn_like(x);
    direction /= direction.norm();
    const at::Tensor along = moonring::testing::FiniteDifferences(
        [&] {
          x.copy_(before + step * direction);
          return loss().item<double>();
        },
        step);
    x.copy_(before);
    const double gradient = (gradients[i] * direction).sum().item<double>();
    EXPECT_NE(gradient, 0.0);
    EXPECT_NEAR(along.item<double>(), gradient, kDifferenceBound * (1 + std::abs(gradient)));
  }
}

INSTANTIATE_TEST_SUITE_P(Table, MixerTest, ::testing::ValuesIn(Cases()));

// Each weight that a mixer declares is used by one of its cases, and no other.
TEST(MixersTest, DeclareTheWeightsThatTheyUse) {
  for (const Mixer* mixer : Mixers()) {
    SCOPED_TRACE(mixer->describe(ModelConfig()));
    std::set<int> declared, used;
    for (const MixerCase& each : Cases()) {
      if (each.mixer != mixer) continue;
      const ModelConfig config = ConfigOf(each);
      for (int place = 0; place < kBlockWeights; ++place) {
        const std::vector<int64_t> shape = mixer->shape(config, config.layer_rules[0], place);
        if (shape.empty()) continue;
        EXPECT_EQ(FactsOf(place).part, BlockPart::kOfMixer) << "weight " << place;
        if (absl::c_all_of(shape, [](int64_t size) { return size > 0; })) declared.insert(place);
      }
      used.insert(each.weights.begin(), each.weights.end());
    }
    EXPECT_FALSE(used.empty()) << "a mixer of the table has no case here";
    EXPECT_EQ(declared, used);
  }
}

TEST(MixersTest, DescribeThemselves) {
  std::set<std::string> facts;
  for (const Mixer* mixer : Mixers()) {
    SCOPED_TRACE(mixer->describe(ModelConfig()));
    EXPECT_NE(std::string(mixer->name), "");
    EXPECT_NE(std::string(mixer->layers_fact), "");
    EXPECT_NE(std::string(mixer->layer_type), "");
    EXPECT_EQ(FactsOf(mixer->output).kind, WeightKind::kMap);
    EXPECT_FALSE(FactsOf(mixer->output).feeds_mixer);
    EXPECT_EQ(mixer->work == nullptr, mixer->cache == MixerCache::kKeys);
    if (mixer->sizes == nullptr) continue;
    for (const MixerSize& size : mixer->sizes(ModelConfig())) {
      EXPECT_NE(std::string(size.key), "");
      if (*size.fact != '\0') {
        EXPECT_TRUE(facts.insert(size.fact).second) << size.fact << " is another mixer's";
      }
    }
  }
}

}  // namespace
}  // namespace moonring::model
