#include "objectives/vocabulary/divergence.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include <ATen/ATen.h>

#include "gtest/gtest.h"
#include "tests/objectives/vocabulary/plain_rows.h"
#include "tests/testing/allocator_watch.h"

namespace moonring::objectives::testing {
namespace {

using base::Parameter;

// A reference model that is wider than the policy and has another logit scale and softcap.
Case ReferenceCase(const Case& c) {
  return {.tokens = c.tokens,
          .hidden = c.hidden + 7,
          .vocab = c.vocab,
          .scale = 0.6,
          .softcap = 4.0,
          .bias = true,
          .dtype = c.dtype,
          .seed = 11,
          .size = c.size};
}

ReferenceHead HeadOf(const Case& c, const Inputs& in) {
  ReferenceHead head{in.hidden,
                     std::make_shared<Parameter>("reference.lm_head.weight", in.weight.clone()),
                     OptionsOf(c)};
  if (c.bias) head.projection.head.bias_V = std::make_shared<Parameter>("bias", in.bias.clone());
  return head;
}

// Computes the divergence from its definition, in probabilities.
at::Tensor PlainDivergence(const Divergence& how, const at::Tensor& z, const at::Tensor& y) {
  const at::Tensor p = at::softmax(z / how.temperature, 1), q = at::softmax(y / how.temperature, 1);
  const auto kl = [](const at::Tensor& a, const at::Tensor& b) {
    return (a * (a / b).log()).sum(1);
  };
  if (how.kind == DivergenceKind::kForward) return kl(q, p);
  if (how.kind == DivergenceKind::kReverse) return kl(p, q);
  const at::Tensor m = how.beta * q + (1 - how.beta) * p;
  return how.beta * kl(q, m) + (1 - how.beta) * kl(p, m);
}

Call Against(const ReferenceHead& reference, const at::Tensor& targets, const Divergence& how) {
  return [=](const at::Tensor& hidden, const std::shared_ptr<Parameter>& head,
             const ProjectionOptions& options) {
    return TokenDivergence(hidden, head, targets, reference, how, options);
  };
}

const Divergence kEvery[] = {
    {},
    {.kind = DivergenceKind::kReverse},
    {.kind = DivergenceKind::kJs},
    {.temperature = 2.0},
    {.kind = DivergenceKind::kReverse, .temperature = 0.8},
    {.kind = DivergenceKind::kJs, .beta = 0.1, .temperature = 1.5},
};

TEST(DivergenceTest, EqualsPlainAutogradInFp64) {
  for (const Divergence& how : kEvery) {
    for (const int64_t chunk_rows : {1, 7, 12, 1000}) {
      for (const double softcap : {0.0, 3.0}) {
        for (const bool bias : {false, true}) {
          SCOPED_TRACE(::testing::Message()
                       << "kind " << static_cast<int>(how.kind) << " temperature "
                       << how.temperature << " rows " << chunk_rows << " softcap " << softcap
                       << " bias " << bias);
          const Case c{.scale = 0.5, .softcap = softcap, .bias = bias, .chunk_rows = chunk_rows},
              of_reference = ReferenceCase(c);
          const Inputs in = MakeInputs(c), other = MakeInputs(of_reference);
          const at::Tensor y = PlainLogits(of_reference, other.hidden, other.weight, other.bias);
          ExpectClose(
              Ours(c, in, Against(HeadOf(of_reference, other), in.targets, how), OptionsOf(c)),
              Plain(c, in, [&](const at::Tensor& z) { return PlainDivergence(how, z, y); }), 1e-12);
        }
      }
    }
  }
}

// For p = (1/2, 1/2) and q = (9/10, 1/10), the divergences equal values computed by hand.
TEST(DivergenceTest, OfTwoOutcomes) {
  const auto logits = [](double first) {
    return std::make_shared<Parameter>(
        "head", at::tensor({std::log(first), std::log(1 - first)}).to(at::kDouble).unsqueeze(1));
  };
  const at::Tensor one = at::ones({1, 1}, at::kDouble), targets = at::tensor({0L});
  const auto value = [&](DivergenceKind kind, double beta = 0.5) {
    return TokenDivergence(one, logits(0.5), targets, ReferenceHead{one, logits(0.9), {}},
                           {.kind = kind, .beta = beta})
        .item<double>();
  };
  const double forward = 0.9 * std::log(1.8) + 0.1 * std::log(0.2),
               reverse = 0.5 * std::log(1 / 1.8) + 0.5 * std::log(5.0);
  // 1e-6, because at::tensor rounds the logits to fp32.
  EXPECT_NEAR(value(DivergenceKind::kForward), forward, 1e-6);
  EXPECT_NEAR(value(DivergenceKind::kReverse), reverse, 1e-6);
  EXPECT_NEAR(value(DivergenceKind::kJs),
              0.5 * (0.9 * std::log(0.9 / 0.7) + 0.1 * std::log(0.1 / 0.3)) +
                  0.5 * (0.5 * std::log(0.5 / 0.7) + 0.5 * std::log(0.5 / 0.3)),
              1e-6);
  EXPECT_NEAR(value(DivergenceKind::kJs, 1e-5) / 1e-5, forward, 1e-4);
  EXPECT_NEAR(value(DivergenceKind::kJs, 1 - 1e-5) / 1e-5, reverse, 1e-4);
}

TEST(DivergenceTest, Fp32WithinBoundsOfFp64) {
  for (const Divergence& how : kEvery) {
    const Case c{.tokens = 300,
                 .hidden = 64,
                 .vocab = 5000,
                 .scale = 0.3,
                 .softcap = 20.0,
                 .chunk_rows = 70,
                 .dtype = at::kFloat},
        of_reference = ReferenceCase(c);
    const Inputs in = MakeInputs(c), other = MakeInputs(of_reference), exact = InFp64(other);
    const at::Tensor y = PlainLogits(of_reference, exact.hidden, exact.weight, exact.bias);
    const Result ours =
        Ours(c, in, Against(HeadOf(of_reference, other), in.targets, how), OptionsOf(c));
    EXPECT_EQ(ours.values.scalar_type(), at::kFloat);
    ExpectClose(
        ours, Plain(c, InFp64(in), [&](const at::Tensor& z) { return PlainDivergence(how, z, y); }),
        3e-6);
  }
}

// With both models' matmuls in bf16 and everything else in fp32, the error is at most one and a
// half times that of plain autograd over logits of bf16 matmuls.
TEST(DivergenceTest, Bf16MatmulNoWorseThanPlain) {
  const Divergence how{.kind = DivergenceKind::kJs};
  const Case c{.tokens = 300,
               .hidden = 64,
               .vocab = 5000,
               .chunk_rows = 70,
               .dtype = at::kFloat,
               .size = 0.2};
  const Case of_reference{
      .tokens = 300, .hidden = 48, .vocab = 5000, .dtype = at::kFloat, .seed = 11, .size = 0.2};
  const Inputs in = MakeInputs(c), other = MakeInputs(of_reference), exact = InFp64(other);
  const at::Tensor y = exact.hidden.matmul(exact.weight.t());
  const Result wanted =
      Plain(c, InFp64(in), [&](const at::Tensor& z) { return PlainDivergence(how, z, y); });
  ReferenceHead reference = HeadOf(of_reference, other);
  ProjectionOptions options = OptionsOf(c);
  options.matmul_dtype = reference.projection.matmul_dtype = at::kBFloat16;
  const Result ours = Ours(c, in, Against(reference, in.targets, how), options);

  const auto rounded = [](const at::Tensor& hidden, const at::Tensor& weight) {
    return hidden.to(at::kBFloat16).matmul(weight.to(at::kBFloat16).t()).to(at::kFloat);
  };
  at::Tensor hidden = in.hidden.clone().requires_grad_(),
             weight = in.weight.clone().requires_grad_();
  const at::Tensor all =
      PlainDivergence(how, rounded(hidden, weight), rounded(other.hidden, other.weight));
  const at::Tensor values = at::where(in.targets.ne(-100), all, at::zeros_like(all));
  (values * in.upstream).sum().backward();
  EXPECT_LE(Distance(ours.values, wanted.values), 1.5 * Distance(values, wanted.values));
  EXPECT_LE(Distance(ours.hidden_gradient, wanted.hidden_gradient),
            1.5 * Distance(hidden.grad(), wanted.hidden_gradient));
  EXPECT_LE(Distance(ours.weight_gradient, wanted.weight_gradient),
            1.5 * Distance(weight.grad(), wanted.weight_gradient));
}

// Logits of thousands, for which most probabilities are 0 in fp32.
TEST(DivergenceTest, LargeLogits) {
  for (const Divergence& how : kEvery) {
    const Case c{.dtype = at::kFloat, .size = 300.0}, of_reference = ReferenceCase(c);
    const Inputs in = MakeInputs(c);
    const ReferenceHead reference = HeadOf(of_reference, MakeInputs(of_reference));
    const Result ours = Ours(c, in, Against(reference, in.targets, how), OptionsOf(c));
    for (const at::Tensor& each : {ours.values, ours.hidden_gradient, ours.weight_gradient})
      EXPECT_TRUE(at::isfinite(each).all().item<bool>());
    EXPECT_TRUE(ours.values.ge(-1e-4).all().item<bool>());
  }
}

// If the policy is its own reference, with the same head, divergence and gradient are 0. The
// reference is never differentiated, even if its weights are trainable.
TEST(DivergenceTest, TheReferenceIsNotDifferentiated) {
  for (const Divergence& how : kEvery) {
    const Case c{.chunk_rows = 9};
    const Inputs in = MakeInputs(c);
    const auto head = std::make_shared<Parameter>("embed.weight", in.weight.clone());
    at::Tensor hidden = in.hidden.clone().requires_grad_();
    const at::Tensor same = TokenDivergence(hidden, head, in.targets,
                                            ReferenceHead{hidden, head, {}}, how, OptionsOf(c));
    (same * in.upstream).sum().backward();
    EXPECT_LE(same.abs().max().item<double>(), 1e-14);
    EXPECT_LE(hidden.grad().abs().max().item<double>(), 1e-13);
    EXPECT_LE(head->gradient().abs().max().item<double>(), 1e-13);

    ReferenceHead other = HeadOf(c, MakeInputs({.seed = 3}));
    other.hidden_TD.requires_grad_();
    TokenDivergence(hidden, head, in.targets, other, how, OptionsOf(c)).sum().backward();
    EXPECT_FALSE(other.hidden_TD.grad().defined());
    EXPECT_FALSE(other.head_VD->gradient().defined());
  }
}

TEST(DivergenceTest, NoTargetsAndNoTokens) {
  for (const int64_t tokens : {0, 5}) {
    const Case c{.tokens = tokens, .ignored = 2.0}, of_reference = ReferenceCase(c);
    const Inputs in = MakeInputs(c);
    const ReferenceHead reference = HeadOf(of_reference, MakeInputs(of_reference));
    const Result ours = Ours(c, in, Against(reference, in.targets, {}), OptionsOf(c));
    EXPECT_EQ(ours.values.numel(), tokens);
    ASSERT_TRUE(ours.weight_gradient.defined());
    for (const at::Tensor& each : {ours.values, ours.hidden_gradient, ours.weight_gradient})
      EXPECT_TRUE(each.eq(0).all().item<bool>());
  }
}

// Either head may have rows beyond the ids of both vocabularies.
TEST(DivergenceTest, PaddedVocabularies) {
  for (const auto& [policy, other] : {std::pair{29, 40}, {40, 29}, {40, 40}}) {
    const Case c{.vocab = policy, .chunk_rows = 6};
    Case of_reference = ReferenceCase(c);
    of_reference.vocab = other;
    const Inputs in = MakeInputs({.vocab = policy}), more = MakeInputs(of_reference);
    const at::Tensor y =
        PlainLogits(of_reference, more.hidden, more.weight, more.bias).narrow(1, 0, 29);
    ProjectionOptions options = OptionsOf(c);
    options.vocabulary = 29;
    ExpectClose(
        Ours(c, in, Against(HeadOf(of_reference, more), in.targets, {}), options),
        Plain(c, in,
              [&](const at::Tensor& z) { return PlainDivergence({}, z.narrow(1, 0, 29), y); }),
        1e-12);
  }
}

// [T, V] is never allocated: forward and backward allocate one chunk of both models' logits, blocks
// for each thread, and the head's gradient.
TEST(DivergenceTest, MemoryStaysBelowAllLogits) {
  const Case c{.tokens = 4096, .hidden = 16, .vocab = 4096, .ignored = 0.0, .dtype = at::kFloat};
  const Inputs in = MakeInputs(c), other = MakeInputs(ReferenceCase(c));
  const ReferenceHead reference = HeadOf(ReferenceCase(c), other);
  const auto head = std::make_shared<Parameter>("lm_head.weight", in.weight.clone());
  at::Tensor hidden = in.hidden.clone().requires_grad_();
  ProjectionOptions options = OptionsOf(c);
  options.chunk_bytes = 2 << 20;
  const int64_t logits = c.tokens * c.vocab * 4, head_bytes = c.vocab * c.hidden * 4,
                hidden_bytes = c.tokens * c.hidden * 4;
  for (const Divergence& how : kEvery) {
    const moonring::testing::AllocatorWatch watch;
    const at::Tensor sum = TokenDivergence(hidden, head, in.targets, reference, how, options).sum();
    // Allowed in addition to the chunk: about ten blocks per thread, and the gradients of the head
    // and of the hidden states.
    const int64_t blocks = 10 * int64_t{256 << 10} * at::get_num_threads();
    EXPECT_LE(watch.peak_bytes(), (2 << 20) + blocks + 2 * hidden_bytes);
    EXPECT_LE(watch.live_bytes(), hidden_bytes);
    watch.ResetPeak();
    sum.backward();
    EXPECT_LE(watch.peak_bytes(), (2 << 20) + blocks + 2 * head_bytes + 4 * hidden_bytes);
    EXPECT_LE(watch.peak_bytes(), logits / 4);
    head->ClearGradient();
    hidden.mutable_grad().reset();
  }
}

TEST(DivergenceTest, AWriteToTheReferenceBeforeBackwardIsAnError) {
  const Case c{.chunk_rows = 5};
  const Inputs in = MakeInputs(c);
  const ReferenceHead reference = HeadOf(ReferenceCase(c), MakeInputs(ReferenceCase(c)));
  const auto head = std::make_shared<Parameter>("lm_head.weight", in.weight.clone());
  at::Tensor hidden = in.hidden.clone().requires_grad_();
  const at::Tensor sum = TokenDivergence(hidden, head, in.targets, reference, {}).sum();
  at::Tensor written = reference.hidden_TD;
  written.zero_();
  EXPECT_THROW(sum.backward(), c10::Error);
}

TEST(DivergenceTest, WrongCalls) {
  const Case c{.ignored = 0.0};
  const Inputs in = MakeInputs(c);
  const auto head = std::make_shared<Parameter>("lm_head.weight", in.weight);
  const ReferenceHead reference = HeadOf(ReferenceCase(c), MakeInputs(ReferenceCase(c)));
  const auto call = [&](const ReferenceHead& of, const Divergence& how = {},
                        int64_t vocabulary = 0) {
    return
        [=] { TokenDivergence(in.hidden, head, in.targets, of, how, {.vocabulary = vocabulary}); };
  };
  Case larger = ReferenceCase(c);
  larger.vocab = 40;
  ExpectRefused(call(HeadOf(larger, MakeInputs(larger))),
                "objectives.divergence: the policy's head lm_head.weight has 29 ids, the "
                "reference's head reference.lm_head.weight 40; vocabulary is 0: where one of them "
                "is padded, set it to the ids of both");
  ExpectRefused(call(reference, {}, 30), "vocabulary is 30, head lm_head.weight has 29 ids");
  ReferenceHead other = reference;
  other.hidden_TD = reference.hidden_TD.narrow(0, 0, 30);
  ExpectRefused(call(other), "the reference's hidden states have 30 rows, the policy's 37");
  other.hidden_TD = in.hidden;
  ExpectRefused(call(other),
                "objectives.divergence, the reference: hidden states of shape [37, 12]");
  other.head_VD = nullptr;
  ExpectRefused(call(other), "the reference needs hidden states and a head");
  ExpectRefused(call(reference, {.kind = DivergenceKind::kJs, .beta = 1.0}),
                "beta is 1, expected more than 0 and less than 1");
  ExpectRefused(call(reference, {.temperature = -1.0}), "temperature is -1, expected more than 0");
}

}  // namespace
}  // namespace moonring::objectives::testing
