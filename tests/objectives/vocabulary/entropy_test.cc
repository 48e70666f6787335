// Entropy and z-loss, which also test the properties that all row losses share (row_loss.h).

#include <cmath>
#include <functional>
#include <memory>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "gtest/gtest.h"
#include "objectives/vocabulary/entropy.h"
#include "objectives/vocabulary/z_loss.h"
#include "tests/objectives/vocabulary/plain_rows.h"

namespace moonring::objectives::testing {
namespace {

using base::Parameter;

struct Loss {
  const char* name;
  std::function<at::Tensor(const at::Tensor& z)> plain;
  std::function<Call(const at::Tensor& targets)> ours;
};

Loss Entropy(double temperature) {
  return {"entropy",
          [=](const at::Tensor& z) {
            const at::Tensor p = at::softmax(z / temperature, 1);
            return -(p * p.log()).sum(1);
          },
          [=](const at::Tensor& targets) -> Call {
            return [=](const at::Tensor& hidden, const std::shared_ptr<Parameter>& head,
                       const ProjectionOptions& options) {
              return TokenEntropy(hidden, head, targets, temperature, options);
            };
          }};
}

Loss ZLoss() {
  return {"z_loss", [](const at::Tensor& z) { return z.exp().sum(1).log().square(); },
          [](const at::Tensor& targets) -> Call {
            return [=](const at::Tensor& hidden, const std::shared_ptr<Parameter>& head,
                       const ProjectionOptions& options) {
              return TokenZLoss(hidden, head, targets, options);
            };
          }};
}

// The losses differ from autograd's only by rounding, since they add the same terms in another
// order. The bound, 1e-12, allows some thousand roundings of fp64 (about 1e-16 each).
TEST(RowLossTest, EqualsPlainAutogradInFp64) {
  for (const Loss& loss : {Entropy(1.0), Entropy(2.5), ZLoss()}) {
    for (const int64_t chunk_rows : {1, 5, 8, 1000}) {
      for (const double softcap : {0.0, 3.0}) {
        for (const double scale : {1.0, 0.25}) {
          for (const bool bias : {false, true}) {
            SCOPED_TRACE(::testing::Message() << loss.name << " rows " << chunk_rows << " softcap "
                                              << softcap << " scale " << scale << " bias " << bias);
            const Case c{
                .scale = scale, .softcap = softcap, .bias = bias, .chunk_rows = chunk_rows};
            const Inputs in = MakeInputs(c);
            ExpectClose(Ours(c, in, loss.ours(in.targets), OptionsOf(c)), Plain(c, in, loss.plain),
                        1e-12);
          }
        }
      }
    }
  }
}

// If all logits are 0, the entropy is ln V and the z-loss its square.
TEST(RowLossTest, OfEqualLogits) {
  const at::Tensor hidden = at::ones({3, 4}, at::kDouble), targets = at::tensor({0L, -100L, 2L});
  const auto head = std::make_shared<Parameter>("head", at::zeros({11, 4}, at::kDouble));
  const at::Tensor entropy = TokenEntropy(hidden, head, targets, 0.7).detach(),
                   z_loss = TokenZLoss(hidden, head, targets).detach();
  for (const int64_t row : {0, 2}) {
    EXPECT_NEAR(entropy[row].item<double>(), std::log(11.0), 1e-14);
    EXPECT_NEAR(z_loss[row].item<double>(), std::log(11.0) * std::log(11.0), 1e-14);
  }
  EXPECT_EQ(entropy[1].item<double>(), 0.0);
  EXPECT_EQ(z_loss[1].item<double>(), 0.0);
}

TEST(RowLossTest, Fp32WithinBoundsOfFp64) {
  for (const Loss& loss : {Entropy(1.0), ZLoss()}) {
    const Case c{.tokens = 300,
                 .hidden = 64,
                 .vocab = 5000,
                 .scale = 0.3,
                 .bias = true,
                 .chunk_rows = 70,
                 .dtype = at::kFloat};
    const Inputs in = MakeInputs(c);
    const Result ours = Ours(c, in, loss.ours(in.targets), OptionsOf(c));
    EXPECT_EQ(ours.values.scalar_type(), at::kFloat);
    ExpectClose(ours, Plain(c, InFp64(in), loss.plain), 3e-6);
  }
}

TEST(RowLossTest, NoTargetsAndNoTokens) {
  for (const int64_t tokens : {0, 5}) {
    const Case c{.tokens = tokens, .bias = true, .ignored = 2.0};
    const Inputs in = MakeInputs(c);
    const Result ours = Ours(c, in, ZLoss().ours(in.targets), OptionsOf(c));
    EXPECT_EQ(ours.values.numel(), tokens);
    ASSERT_TRUE(ours.weight_gradient.defined());
    for (const at::Tensor& each :
         {ours.values, ours.hidden_gradient, ours.weight_gradient, ours.bias_gradient})
      EXPECT_TRUE(each.eq(0).all().item<bool>());
  }
}

// On a sharded stream, each rank's rows give the whole stream's losses, and the weight's gradients
// add up.
TEST(RowLossTest, RowsOfRanksGiveTheWhole) {
  const Case c{.tokens = 256, .hidden = 64, .vocab = 300, .ignored = 0.3};
  const Inputs in = MakeInputs(c);
  const Loss loss = Entropy(1.0);
  const Result whole = Ours(c, in, loss.ours(in.targets), OptionsOf(c));
  at::Tensor weight_gradient = at::zeros_like(whole.weight_gradient);
  for (const auto& [begin, end] : {std::pair{0, 64}, {64, 160}, {160, 256}}) {
    const Inputs part{in.hidden.slice(0, begin, end), in.weight, in.bias,
                      in.targets.slice(0, begin, end), in.upstream.slice(0, begin, end)};
    const Result ours = Ours(c, part, loss.ours(part.targets), OptionsOf(c));
    EXPECT_LE(Distance(ours.values, whole.values.slice(0, begin, end)), 1e-14);
    weight_gradient += ours.weight_gradient;
  }
  EXPECT_LE(Distance(weight_gradient, whole.weight_gradient), 1e-14);
}

// Two backwards of one graph: the first one frees what the forward saved, the second one recomputes
// the logits. Gradients add up in the Parameter, as for a tied embedding.
TEST(RowLossTest, TwoBackwardsOfOneGraph) {
  const Case c;
  const Inputs in = MakeInputs(c);
  const auto head = std::make_shared<Parameter>("embed.weight", in.weight.clone());
  const at::Tensor of_embedding = at::ones_like(in.weight);
  head->AddGradient(of_embedding);
  at::Tensor hidden = in.hidden.clone().requires_grad_();
  const at::Tensor sum = (TokenEntropy(hidden, head, in.targets) * in.upstream).sum();
  sum.backward({}, /*retain_graph=*/true);
  sum.backward();
  const Result plain = Plain(c, in, Entropy(1.0).plain);
  EXPECT_LE(Distance(head->gradient(), plain.weight_gradient * 2 + of_embedding), 1e-12);
  EXPECT_LE(Distance(hidden.grad(), plain.hidden_gradient * 2), 1e-12);
}

TEST(RowLossTest, FrozenHeadAndFrozenHidden) {
  const Case c;
  const Inputs in = MakeInputs(c);
  const Result wanted = Plain(c, in, ZLoss().plain);
  const auto frozen =
      std::make_shared<Parameter>("lm_head.weight", in.weight.clone(), /*trainable=*/false);
  at::Tensor hidden = in.hidden.clone().requires_grad_();
  (TokenZLoss(hidden, frozen, in.targets) * in.upstream).sum().backward();
  EXPECT_FALSE(frozen->gradient().defined());
  EXPECT_LE(Distance(hidden.grad(), wanted.hidden_gradient), 1e-12);
  EXPECT_FALSE(TokenZLoss(in.hidden, frozen, in.targets).requires_grad());

  const auto head = std::make_shared<Parameter>("lm_head.weight", in.weight.clone());
  (TokenZLoss(in.hidden, head, in.targets) * in.upstream).sum().backward();
  EXPECT_LE(Distance(head->gradient(), wanted.weight_gradient), 1e-12);
  at::NoGradGuard no_grad;
  EXPECT_FALSE(TokenZLoss(hidden, head, in.targets).requires_grad());
}

// Ids beyond `vocabulary` are ignored; the head's gradient is 0 in their rows.
TEST(RowLossTest, PartOfTheVocabulary) {
  const Case c{.bias = true, .chunk_rows = 4};
  const Inputs in = MakeInputs(c);
  ProjectionOptions options = OptionsOf(c);
  options.vocabulary = 20;
  const auto plain = [](const at::Tensor& z) { return z.narrow(1, 0, 20).logsumexp(1).square(); };
  ExpectClose(Ours(c, in, ZLoss().ours(in.targets), options), Plain(c, in, plain), 1e-12);
}

TEST(RowLossTest, WrongCalls) {
  const Case c{.ignored = 0.0};
  const Inputs in = MakeInputs(c);
  const auto head = std::make_shared<Parameter>("lm_head.weight", in.weight);
  ExpectRefused([&] { TokenZLoss(in.hidden.narrow(1, 0, 5), head, in.targets); },
                "objectives.z_loss: hidden states of shape [37, 5], head lm_head.weight of shape "
                "[29, 12]");
  ExpectRefused([&] { TokenEntropy(in.hidden, head, in.targets.narrow(0, 0, 3)); },
                "objectives.entropy: targets [3] of Long, expected int64 [37]");
  ExpectRefused([&] { TokenEntropy(in.hidden, head, in.targets, 0.0); },
                "temperature is 0, expected more than 0");
  ExpectRefused([&] { TokenZLoss(in.hidden, head, in.targets, {.vocabulary = 30}); },
                "vocabulary is 30, head lm_head.weight has 29 ids");
  at::Tensor hidden = in.hidden.clone().requires_grad_();
  const at::Tensor sum = TokenEntropy(hidden, head, in.targets).sum();
  EXPECT_THROW(sum.backward({}, /*retain_graph=*/true, /*create_graph=*/true), c10::Error);
}

}  // namespace
}  // namespace moonring::objectives::testing
