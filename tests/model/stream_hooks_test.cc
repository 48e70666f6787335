// Hooks, functions of a script that are called between blocks: their changes of the hidden states,
// the gradients through them in every recompute mode and with activation offload, errors, and
// decoding with a hook.

#include "model/stream_hooks.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "model/sampler.h"
#include "tests/model/hooked_models.h"
#include "tests/testing/finite_differences.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::FiniteDifferences;
using ::moonring::testing::kDifferenceBound;
using ::moonring::testing::RelativeError;
using ::testing::HasSubstr;
using ::testing::Throws;

class StreamHooksTest : public HookedModelTest {};
class StreamHooksInEveryMode : public HookedModelTest,
                               public ::testing::WithParamInterface<Mode> {};

// A hook that returns its input changes no bit. It runs once per module in a forward, and not in
// the backward's recomputation.
TEST_P(StreamHooksInEveryMode, AnIdentityChangesNoBit) {
  const auto model = Make(GetParam().Options());
  const at::Tensor loss = LossOfStates(*model);
  loss.backward();
  const auto wanted = Gradients(*model);
  const std::vector<StreamHook> identities = {
      [](int64_t, absl::string_view, const at::Tensor&) { return at::Tensor(); },
      [](int64_t, absl::string_view, const at::Tensor& hidden) { return hidden; },
      [](int64_t, absl::string_view, const at::Tensor& hidden) { return hidden.clone(); },
      // The rows of this result are not contiguous.
      [](int64_t, absl::string_view, const at::Tensor& hidden) {
        return hidden.t().contiguous().t();
      }};
  for (const StreamHook& identity : identities) {
    std::vector<std::string> seen;
    const at::Tensor same = LossOfStates(
        *model, [&](int64_t layer, absl::string_view module, const at::Tensor& hidden) {
          seen.push_back(std::to_string(layer) + " " + std::string(module));
          return identity(layer, module, hidden);
        });
    const std::vector<std::string> all = {"0 model.embed_tokens", "1 model.layers.0",
                                          "2 model.layers.1",     "3 model.layers.2",
                                          "4 model.layers.3",     "5 model.norm"};
    EXPECT_EQ(seen, all);
    same.backward();
    EXPECT_EQ(seen, all);
    EXPECT_TRUE(BitEqual(same, loss));
    ExpectBitEqual(Gradients(*model), wanted);
  }
}

// A vector that a hook adds after a block acts like the bias of the block's last linear map; added
// after the embedding, like an addition to each row of the embedding.
TEST_P(StreamHooksInEveryMode, AnAddedVectorIsABias) {
  const auto model = Make(GetParam().Options(), /*bias=*/true),
             biased = Make(GetParam().Options(), /*bias=*/true);
  at::manual_seed(40);
  for (int64_t k = 0; k <= kLayers; ++k) {
    SCOPED_TRACE(k);
    const at::Tensor added = at::randn({Config().hidden_size}, at::kDouble).requires_grad_(true);
    const std::string name = k == 0
                                 ? "model.embed_tokens.weight"
                                 : "model.layers." + std::to_string(k - 1) + ".mlp.down_proj.bias";
    const auto bias = Named(*biased, name);
    const at::Tensor before = bias->weight().clone();
    {
      const at::NoGradGuard no_grad;
      bias->weight().add_(added);
    }
    const at::Tensor loss =
        LossOfStates(*model, [&](int64_t layer, absl::string_view, const at::Tensor& hidden) {
          return layer == k ? hidden + added : at::Tensor();
        });
    const at::Tensor wanted = LossOfStates(*biased);
    EXPECT_NEAR(loss.item<double>(), wanted.item<double>(), 1e-12 * wanted.item<double>());
    loss.backward();
    wanted.backward();
    const auto gradients = Gradients(*model), of_biased = Gradients(*biased);
    for (const auto& [each, gradient] : of_biased)
      EXPECT_TRUE(RelativeError(gradients.at(each), gradient, 1e-11)) << each;
    const at::Tensor of_bias = of_biased.at(name);
    EXPECT_TRUE(RelativeError(added.grad(), k == 0 ? of_bias.sum(0) : of_bias, 1e-11));
    bias->weight().copy_(before);
  }
}

// If the only trainable weight is in the hook, it is trained. Nothing below a point where the
// hidden states are detached is trained.
TEST_F(StreamHooksTest, AFrozenModelBelowATrainableLayer) {
  TransformerOptions options = In(Recompute::kBlock);
  options.frozen = true;
  const auto model = Make(options);
  at::manual_seed(41);
  const at::Tensor scale = at::randn({Config().hidden_size}, at::kDouble).requires_grad_(true);
  const auto loss = [&] {
    return LossOfStates(*model, [&](int64_t layer, absl::string_view, const at::Tensor& hidden) {
      return layer == 2 ? hidden * scale : at::Tensor();
    });
  };
  loss().backward();
  EXPECT_EQ(attention_->calls, kLayers + 2);  // blocks below the hook have no backward
  EXPECT_TRUE(RelativeError(scale.grad(),
                            FiniteDifferences([&] { return loss().item<double>(); }, scale),
                            kDifferenceBound));

  const auto learning = Make(In(Recompute::kBlock));
  Run(*learning, {.after =
                      [](int64_t layer, absl::string_view, const at::Tensor& hidden) {
                        return layer == 3 ? hidden.detach() : at::Tensor();
                      }})
      .hidden_TD.sum()
      .backward();
  for (const auto& [name, gradient] : Gradients(*learning)) {
    EXPECT_TRUE(name == "model.norm.weight" || absl::StartsWith(name, "model.layers.3.")) << name;
  }
}

TEST_F(StreamHooksTest, RefusesWhatDoesNotFit) {
  const auto model = Make(In(Recompute::kBlock));
  const auto refusal = [&](StreamHooks hooks) -> std::string {
    try {
      Run(*model, std::move(hooks));
    } catch (const c10::ValueError& error) {
      return error.what_without_backtrace();
    }
    return "";
  };
  const auto giving = [&](const at::Tensor& other) {
    return refusal({.after = [=](int64_t layer, absl::string_view, const at::Tensor&) {
      return layer == 2 ? other : at::Tensor();
    }});
  };
  EXPECT_EQ(
      giving(at::zeros({13, 15}, at::kDouble)),
      "around: after layer 2 (model.layers.1) it gave Double [13, 15] on cpu, expected Double "
      "[13, 16] on cpu");
  EXPECT_THAT(giving(at::zeros({13, 16}, at::kFloat)), HasSubstr("it gave Float [13, 16] on cpu"));
  EXPECT_THAT(giving(at::zeros({13, 16}, at::kDouble).to_sparse()), HasSubstr("it gave Double"));
  EXPECT_EQ(refusal({.states = {1, 5}}),
            "states: layer 5, expected 0 (after the embedding) to 4 (after the last block)");
  EXPECT_THAT(refusal({.states = {-1}}), HasSubstr("states: layer -1"));
  EXPECT_THAT(refusal({.upto = 5}), HasSubstr("upto: layer 5, expected 0"));
  EXPECT_THAT(refusal({.states = {3}, .upto = 2}),
              HasSubstr("to 2 (where `upto` ends the forward)"));
  EXPECT_THAT(
      [&] {
        model->Norm(at::zeros({3, 15}, at::kDouble));
      },
      Throws<c10::ValueError>(::testing::Property(
          &c10::Error::msg, HasSubstr("norm: hidden states Double [3, 15] on cpu, expected "
                                      "Double [T, 16] on cpu"))));
}

TEST_F(StreamHooksTest, NoRows) {
  stream_ = {{}, at::empty({0}, at::kLong), at::empty({0}, at::kLong), {}, {}};
  const auto model = Make(In(Recompute::kBlock));
  const Hidden made =
      Run(*model,
          {.after = [](int64_t, absl::string_view, const at::Tensor& hidden) { return hidden * 2; },
           .states = {0, 2}});
  EXPECT_EQ(made.states_TD[1].sizes(), at::IntArrayRef({0, 16}));
  made.states_TD[1].sum().backward();
  EXPECT_EQ(attention_->calls, kLayers + 2);  // also in the backward: it may contain collectives
}

// Decoding with a hook: a prompt in several pieces, then token by token, equals a forward of all
// rows; greedy decoding equals that of a model with the corresponding bias.
TEST_F(StreamHooksTest, ActsOnEachTokenThatIsDecoded) {
  const auto model = Make(In(Recompute::kBlock), /*bias=*/true),
             biased = Make(In(Recompute::kBlock), /*bias=*/true);
  at::manual_seed(42);
  const at::Tensor added = at::randn({Config().hidden_size}, at::kDouble) * 3;
  Named(*biased, "model.layers.1.mlp.down_proj.bias")->weight().add_(added);
  int calls = 0;
  Sampler steered(*model, [&](int64_t layer, absl::string_view, const at::Tensor& hidden) {
    ++calls;
    return layer == 2 ? hidden + added : at::Tensor();
  });
  Sampler plain(*model), wanted(*biased);
  std::vector<int64_t> prompt;
  for (int i = 0; i < 600; ++i) prompt.push_back(i * i % 13);
  const SamplingOptions options{.max_new_tokens = 12};
  ASSERT_OK_AND_ASSIGN(const std::vector<int64_t> said, steered.Generate(prompt, options));
  EXPECT_EQ(calls, (2 + 11) * (kLayers + 2));  // the prompt's two pieces, then one row per call
  ASSERT_OK_AND_ASSIGN(const std::vector<int64_t> as_biased, wanted.Generate(prompt, options));
  ASSERT_OK_AND_ASSIGN(const std::vector<int64_t> unsteered, plain.Generate(prompt, options));
  EXPECT_EQ(said, as_biased);
  EXPECT_NE(said, unsteered);
  prompt.push_back(5);
  EXPECT_TRUE(RelativeError(*steered.NextLogits(prompt), *wanted.NextLogits(prompt), 1e-12));
}

INSTANTIATE_TEST_SUITE_P(Modes, StreamHooksInEveryMode, ::testing::ValuesIn(Modes()), NameOfMode);

}  // namespace
}  // namespace moonring::model
