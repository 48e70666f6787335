// Hidden states between blocks, and forwards that end after some block: their values, and the
// gradients through them in every recompute mode and with activation offload.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "base/autograd/custom_function.h"
#include "model/stream_hooks.h"
#include "tests/model/hooked_models.h"
#include "tests/testing/finite_differences.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::FiniteDifferences;
using ::moonring::testing::MaskedAttention;
using ::moonring::testing::RelativeError;
using ::testing::HasSubstr;
using ::testing::Throws;

class StreamStatesTest : public HookedModelTest {};
class StreamStatesInEveryMode : public HookedModelTest,
                                public ::testing::WithParamInterface<Mode> {};

// The hidden states after k blocks equal those of a model that only has the first k blocks.
TEST_F(StreamStatesTest, StatesAreWhatAShorterModelGives) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    const auto model = Make(In(Recompute::kBlock, dtype));
    const Hidden made = Run(*model, {.states = {0, 1, 2, 3, 4}});
    EXPECT_TRUE(BitEqual(made.hidden_TD, Run(*model, {}).hidden_TD));
    const base::Parameters& weights = model->parameters();
    EXPECT_TRUE(BitEqual(made.states_TD[0], weights[0]->weight().index_select(0, stream_.ids)));
    EXPECT_TRUE(BitEqual(model->Norm(made.states_TD[kLayers]), made.hidden_TD));
    for (int64_t k = 1; k <= kLayers; ++k) {
      const ModelConfig config = testing::ParsedConfig(
          testing::SmallJson({{"tie_word_embeddings", false}, {"num_hidden_layers", k}}));
      base::Parameters own;
      for (const WeightShape& wanted : WantedWeights(config)) {
        for (const auto& weight : weights) {
          if (weight->name() == wanted.name) own.push_back(weight);
        }
      }
      ASSERT_OK_AND_ASSIGN(const auto shorter,
                           Transformer::Create(config, own, In(Recompute::kBlock, dtype)));
      EXPECT_TRUE(BitEqual(model->Norm(made.states_TD[k]), Run(*shorter, {}).hidden_TD)) << k;
      EXPECT_TRUE(BitEqual(made.states_TD[k], Run(*model, {.upto = k}).hidden_TD)) << k;
    }
  }
}

// Gradients equal finite differences. The loss is some hundreds, with an error of 1e-13, divided by
// a step of 1e-5; gradients are at least 0.1.
TEST_F(StreamStatesTest, GradientsAreFiniteDifferences) {
  const auto model = Make(In(Recompute::kNone));
  LossOfStates(*model).backward();
  const auto gradients = Gradients(*model);
  EXPECT_EQ(gradients.size(), model->parameters().size() - 1);  // all but the head
  for (const auto& [name, gradient] : gradients) {
    at::Tensor weight = Named(*model, name)->weight();
    if (weight.numel() > 300) continue;  // an MLP's would take a while
    const auto loss = [&] { return LossOfStates(*model).item<double>(); };
    EXPECT_TRUE(RelativeError(gradient, FiniteDifferences(loss, weight), 1e-7)) << name;
  }
}

TEST_P(StreamStatesInEveryMode, GradientsAreTheSame) {
  const auto plain = Make(In(Recompute::kNone)), model = Make(GetParam().Options());
  LossOfStates(*plain).backward();
  LossOfStates(*model).backward();
  ExpectBitEqual(Gradients(*model), Gradients(*plain));
}

// A loss of the hidden states after layer 2 gives the same gradients with a whole forward and with
// one that ends there.
TEST_P(StreamStatesInEveryMode, ALossBelowTheTop) {
  const auto model = Make(GetParam().Options());
  const auto loss = [&](const at::Tensor& state) { return (state * Weights(33)).square().sum(); };
  loss(Run(*model, {.states = {2}}).states_TD[0]).backward();
  // No block above layer 2 has a backward. The attention of this test keeps nothing, so it is
  // recomputed in the blocks below.
  const int64_t again = GetParam().recompute == Recompute::kNone ? 0 : 2 - GetParam().whole_layers;
  EXPECT_EQ(attention_->calls, kLayers + again);
  const auto whole = Gradients(*model);
  for (const auto& [name, gradient] : whole) {
    EXPECT_EQ(name.find("model.layers.2"), std::string::npos) << name;
    EXPECT_EQ(name.find("model.layers.3"), std::string::npos) << name;
  }
  EXPECT_EQ(whole.size(), 1 + 2 * 9u);  // the embedding, and nine weights per block
  const Hidden early = Run(*model, {.states = {2, 0}, .upto = 2});
  EXPECT_TRUE(BitEqual(early.states_TD[0], early.hidden_TD));
  loss(early.hidden_TD).backward();
  EXPECT_EQ(attention_->calls, 2 + again);
  ExpectBitEqual(Gradients(*model), whole);
}

// Gradients of an adapter on a frozen model, with dropout.
TEST_F(StreamStatesTest, GradientsOfAnAdapter) {
  std::map<std::string, at::Tensor> wanted;
  const Stream stream = RandomStream({7, 1, 5}, 13);
  for (const Recompute recompute : {Recompute::kNone, Recompute::kBlock, Recompute::kSelective}) {
    for (const Kind& kind : {Kinds()[1], Kinds()[4]}) {
      const Models models =
          MakeModels(SmallConfig(/*tied=*/true, kLayers), kind.options, at::kDouble, recompute);
      const auto loss = [&] {
        ForwardOptions forward{.noise = NoiseOf(stream), .hooks = {.states = {2}, .upto = 3}};
        const Hidden made =
            models.adapted->Forward(stream.ids, stream.positions,
                                    std::make_shared<MaskedAttention>(stream.lengths), forward);
        return made.states_TD[0].square().sum() + made.hidden_TD.sin().sum();
      };
      loss().backward();
      for (const auto& parameter : models.adapter->parameters) {
        const std::string name = kind.name + parameter->name();
        const bool above = name.find("layers.3.") != std::string::npos ||
                           absl::EndsWith(name, ".model.norm.weight") ||
                           absl::EndsWith(name, ".lm_head.weight");
        EXPECT_EQ(parameter->gradient().defined(), !above) << name;
        if (above) continue;
        if (recompute != Recompute::kNone) {
          EXPECT_TRUE(BitEqual(parameter->gradient(), wanted.at(name))) << name;
          continue;
        }
        wanted[name] = parameter->gradient().clone();
        EXPECT_TRUE(RelativeError(
            wanted[name],
            FiniteDifferences([&] { return loss().item<double>(); }, parameter->weight()), 1e-7))
            << name;
      }
    }
  }
}

// A block may write over a gradient that nothing else reads, but not over the caller's gradient,
// nor over one whose rows share memory, like the expanded gradient of a sum.
TEST_F(StreamStatesTest, TheCallersGradientStaysAsItIs) {
  stream_ = RandomStream({300}, 13);
  TransformerOptions options = In(Recompute::kBlock);
  options.tile_bytes = 1;  // many tiles
  const auto tiled = Make(options), whole = Make(In(Recompute::kNone));
  const at::Tensor gradient = Weights(34), kept = gradient.clone();
  std::map<std::string, at::Tensor> wanted;
  for (Transformer* model : {whole.get(), tiled.get()}) {
    const Hidden made = Run(*model, {.states = {3, 1}, .upto = 3});
    base::Backpropagate({made.states_TD[0], made.states_TD[1].sum()},
                        {gradient, at::ones({}, at::kDouble)});
    EXPECT_TRUE(BitEqual(gradient, kept));
    auto gradients = Gradients(*model);
    Run(*model, {.states = {2}, .upto = 2}).states_TD[0].sum().backward();
    for (auto& [name, sum] : Gradients(*model)) gradients.at(name) += sum;
    for (const auto& [name, each] : gradients) {
      if (model == tiled.get()) {
        EXPECT_TRUE(RelativeError(each, wanted.at(name), 1e-12)) << name;
      }
    }
    wanted = gradients;
  }
}

// Writing to a tensor that a block has read is an error in the backward, wherever the block's input
// is stored.
TEST_F(StreamStatesTest, AStateIsNotToBeWrittenTo) {
  for (const bool stores : {false, true}) {
    TransformerOptions options = In(Recompute::kBlock);
    if (stores) options.activation_store = std::make_shared<CloneStore>();
    const auto model = Make(options);
    const Hidden made = Run(*model, {.states = {2}});
    {
      const at::NoGradGuard no_grad;
      made.states_TD[0].mul_(2);
    }
    EXPECT_THAT([&] { made.hidden_TD.sum().backward(); },
                Throws<std::exception>(::testing::Property(
                    &std::exception::what,
                    HasSubstr(stores ? "written to in place" : "modified by an inplace"))));
  }
  // A hook may write to it, before the next block reads it.
  const auto model = Make(In(Recompute::kBlock));
  const at::Tensor twice =
      LossOfStates(*model, [](int64_t layer, absl::string_view, const at::Tensor& hidden) {
        return layer == 2 ? hidden * 2 : at::Tensor();
      });
  twice.backward();
  const auto wanted = Gradients(*model);
  const at::Tensor in_place =
      LossOfStates(*model, [](int64_t layer, absl::string_view, const at::Tensor& hidden) {
        return layer == 2 ? hidden.mul_(2) : at::Tensor();
      });
  in_place.backward();
  EXPECT_TRUE(BitEqual(in_place, twice));
  ExpectBitEqual(Gradients(*model), wanted);
}

INSTANTIATE_TEST_SUITE_P(Modes, StreamStatesInEveryMode, ::testing::ValuesIn(Modes()), NameOfMode);

}  // namespace
}  // namespace moonring::model
