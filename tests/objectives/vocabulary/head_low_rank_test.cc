// LoRA on the head, in all functions that use one. The reference is autograd over the whole
// [tokens, vocabulary] matrix, with the logits scale (W h + m B (A h') + b) written out.

#include "objectives/vocabulary/head_low_rank.h"

#include <functional>
#include <memory>
#include <string>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "base/autograd/parameter.h"
#include "comm/sequence.h"
#include "kernels/random/counter_random.h"
#include "objectives/composed_log_prob.h"
#include "objectives/log_prob.h"
#include "objectives/vocabulary/divergence.h"
#include "objectives/vocabulary/entropy.h"
#include "objectives/vocabulary/top_log_probs.h"
#include "tests/objectives/vocabulary/plain_rows.h"
#include "tests/testing/finite_differences.h"

namespace moonring::objectives {
namespace {

using base::Parameter;
using testing::Case;
using testing::Distance;
using testing::Inputs;
using testing::MakeInputs;

constexpr int64_t kRank = 3;
constexpr double kFactor = 0.7, kRate = 0.3;
constexpr uint64_t kKey = 99;

struct LowRankCase {
  Case c;
  bool dropout = false;
};

struct LowRankInputs {
  Inputs in;
  at::Tensor a, b, identity;
};

LowRankInputs MakeLowRank(const Case& c) {
  LowRankInputs made{MakeInputs(c), {}, {}, at::arange(c.tokens, at::kLong) * 17 + 3};
  auto generator = at::detail::createCPUGenerator(31);
  made.a = at::randn({kRank, c.hidden}, generator, at::kDouble).to(c.dtype);
  made.b = at::randn({c.vocab, kRank}, generator, at::kDouble).to(c.dtype);
  return made;
}

struct Gradients {
  at::Tensor values, hidden, weight, bias, a, b;
};

void ExpectClose(const Gradients& ours, const Gradients& wanted, double bound) {
  EXPECT_LE(Distance(ours.values, wanted.values), bound);
  EXPECT_LE(Distance(ours.hidden, wanted.hidden), bound);
  EXPECT_LE(Distance(ours.a, wanted.a), bound);
  EXPECT_LE(Distance(ours.b, wanted.b), bound);
  if (ours.weight.defined()) {
    EXPECT_LE(Distance(ours.weight, wanted.weight), bound);
  }
  if (wanted.bias.defined()) {
    EXPECT_LE(Distance(ours.bias, wanted.bias), bound);
  }
}

at::Tensor Kept(const LowRankInputs& made, const at::Tensor& hidden) {
  return kernels::CounterUniform(kKey, made.identity, hidden.size(1))
             .ge(kRate)
             .to(hidden.scalar_type()) /
         (1 - kRate);
}

// `of_rows` maps logits [tokens, vocabulary] to one number per row.
Gradients Plain(const LowRankCase& l, const LowRankInputs& made,
                const std::function<at::Tensor(const at::Tensor& z)>& of_rows) {
  const Case& c = l.c;
  const auto leaf = [](const at::Tensor& tensor) { return tensor.clone().requires_grad_(); };
  const at::Tensor hidden = leaf(made.in.hidden), weight = leaf(made.in.weight),
                   bias = leaf(made.in.bias), a = leaf(made.a), b = leaf(made.b);
  const at::Tensor dropped = l.dropout ? hidden * Kept(made, hidden) : hidden;
  at::Tensor logits = hidden.matmul(weight.t()) + kFactor * dropped.matmul(a.t()).matmul(b.t());
  if (c.bias) logits = logits + bias;
  logits = logits * c.scale;
  if (c.softcap != 0.0) logits = (logits / c.softcap).tanh() * c.softcap;
  const at::Tensor all = of_rows(logits),
                   values = at::where(made.in.targets.ne(comm::kIgnore), all, at::zeros_like(all));
  (values * made.in.upstream).sum().backward();
  return {values.detach(), hidden.grad(), weight.grad(), bias.grad(), a.grad(), b.grad()};
}

HeadLowRank TermOf(const LowRankCase& l, const LowRankInputs& made, bool trainable = true) {
  HeadLowRank term{.a_RD = std::make_shared<Parameter>("lora_A", made.a.clone(), trainable),
                   .b_VR = std::make_shared<Parameter>("lora_B", made.b.clone(), trainable),
                   .factor = kFactor};
  if (l.dropout) {
    term.dropout = kRate;
    term.key = kKey;
    term.identity_T = made.identity;
  }
  return term;
}

// `frozen`: of W and the bias, as under an adapter.
Gradients Ours(const LowRankCase& l, const LowRankInputs& made, bool frozen,
               const testing::Call& call) {
  ProjectionOptions options = testing::OptionsOf(l.c);
  const auto head = std::make_shared<Parameter>("lm_head.weight", made.in.weight.clone(), !frozen);
  if (l.c.bias)
    options.head.bias_V =
        std::make_shared<Parameter>("lm_head.bias", made.in.bias.clone(), !frozen);
  options.head.low_rank = TermOf(l, made);
  const at::Tensor hidden = made.in.hidden.clone().requires_grad_();
  const at::Tensor values = call(hidden, head, options);
  (values * made.in.upstream).sum().backward();
  return {values.detach(),
          hidden.grad(),
          head->gradient(),
          l.c.bias && !frozen ? options.head.bias_V->gradient() : at::Tensor(),
          options.head.low_rank->a_RD->gradient(),
          options.head.low_rank->b_VR->gradient()};
}

LogProbOptions LogProbOptionsOf(const ProjectionOptions& projection) {
  return {.head = projection.head,
          .matmul_dtype = projection.matmul_dtype,
          .chunk_bytes = projection.chunk_bytes};
}

testing::Call LogProbOf(const at::Tensor& targets, double smoothing = 0.0,
                        at::ScalarType matmul = at::kFloat) {
  return [=](const at::Tensor& hidden, const std::shared_ptr<Parameter>& head,
             const ProjectionOptions& projection) {
    LogProbOptions options = LogProbOptionsOf(projection);
    options.label_smoothing = smoothing;
    options.matmul_dtype = matmul;
    return TokenLogProb(hidden, head, targets, options);
  };
}

std::function<at::Tensor(const at::Tensor&)> PickedOf(const at::Tensor& targets,
                                                      double smoothing = 0.0) {
  return [=](const at::Tensor& z) {
    const at::Tensor all = at::log_softmax(z, 1),
                     picked = all.gather(1, targets.clamp_min(0).unsqueeze(1)).squeeze(1);
    return smoothing == 0.0 ? picked : (1 - smoothing) * picked + smoothing * all.mean(1);
  };
}

// In fp64 only the order of sums differs: bound 1e-12, some thousand roundings.
TEST(HeadLowRankTest, LogProbEqualsPlainAutograd) {
  for (const int64_t chunk_rows : {1, 5, 22, 1000}) {
    for (const double softcap : {0.0, 3.0}) {
      for (const bool frozen : {true, false}) {
        for (const bool dropout : {false, true}) {
          for (const bool bias : {false, true}) {
            SCOPED_TRACE(::testing::Message()
                         << chunk_rows << " " << softcap << " " << frozen << dropout << bias);
            const LowRankCase l{
                {.scale = 0.25, .softcap = softcap, .bias = bias, .chunk_rows = chunk_rows},
                dropout};
            const LowRankInputs made = MakeLowRank(l.c);
            Gradients wanted = Plain(l, made, PickedOf(made.in.targets, 0.1));
            if (!bias || frozen) wanted.bias = at::Tensor();
            const Gradients ours = Ours(l, made, frozen, LogProbOf(made.in.targets, 0.1));
            EXPECT_EQ(ours.weight.defined(), !frozen);
            ExpectClose(ours, wanted, 1e-12);
          }
        }
      }
    }
  }
}

TEST(HeadLowRankTest, GradientsByFiniteDifferences) {
  const LowRankCase l{{.tokens = 9, .scale = 0.5, .softcap = 4.0, .chunk_rows = 4}, true};
  LowRankInputs made = MakeLowRank(l.c);
  const Gradients ours = Ours(l, made, true, LogProbOf(made.in.targets));
  const auto loss = [&] {
    const at::NoGradGuard no_grad;
    ProjectionOptions options = testing::OptionsOf(l.c);
    options.head.low_rank = TermOf(l, made);
    const auto head = std::make_shared<Parameter>("lm_head.weight", made.in.weight, false);
    return (TokenLogProb(made.in.hidden, head, made.in.targets, LogProbOptionsOf(options)) *
            made.in.upstream)
        .sum()
        .item<double>();
  };
  using ::moonring::testing::FiniteDifferences;
  for (const auto& [tensor, gradient] : {std::pair{made.in.hidden, ours.hidden},
                                         std::pair{made.a, ours.a}, std::pair{made.b, ours.b}}) {
    EXPECT_LE((FiniteDifferences(loss, tensor) - gradient).abs().max().item<double>(),
              ::moonring::testing::kDifferenceBound);
  }
}

// fp32 over several chunks and blocks: bound 2e-6, as without the term.
TEST(HeadLowRankTest, Fp32WithinBoundsOfFp64) {
  const LowRankCase l{
      {.tokens = 300, .hidden = 64, .vocab = 5000, .chunk_rows = 70, .dtype = at::kFloat}, true};
  const LowRankInputs made = MakeLowRank(l.c);
  LowRankInputs wide = made;
  wide.in = testing::InFp64(made.in);
  wide.a = made.a.to(at::kDouble);
  wide.b = made.b.to(at::kDouble);
  Gradients wanted =
      Plain({{.tokens = 300, .hidden = 64, .vocab = 5000}, true}, wide, PickedOf(made.in.targets));
  wanted.bias = at::Tensor();
  ExpectClose(Ours(l, made, true, LogProbOf(made.in.targets)), wanted, 2e-6);
}

// A matmul in bf16 is no further from fp64 than the same head without the term is, times two.
TEST(HeadLowRankTest, Bf16RoundsAsWithoutTheTerm) {
  const LowRankCase l{
      {.tokens = 64, .hidden = 32, .vocab = 300, .chunk_rows = 20, .dtype = at::kFloat}};
  LowRankInputs made = MakeLowRank(l.c);
  for (at::Tensor* tensor : {&made.in.hidden, &made.in.weight, &made.a, &made.b})
    *tensor = (*tensor * 0.3).to(at::kBFloat16).to(at::kFloat);
  const auto errors = [&](const LowRankInputs& inputs) {
    LowRankInputs wide = inputs;
    wide.in = testing::InFp64(inputs.in);
    wide.a = inputs.a.to(at::kDouble);
    wide.b = inputs.b.to(at::kDouble);
    const Gradients exact =
        Plain({{.tokens = 64, .hidden = 32, .vocab = 300}}, wide, PickedOf(inputs.in.targets));
    const Gradients ours = Ours(l, inputs, true, LogProbOf(inputs.in.targets, 0.0, at::kBFloat16));
    return std::pair{Distance(ours.values, exact.values), Distance(ours.hidden, exact.hidden)};
  };
  LowRankInputs none = made;
  none.b = at::zeros_like(none.b);
  const auto [value, gradient] = errors(made);
  const auto [value_without, gradient_without] = errors(none);
  EXPECT_LE(value, 2 * value_without);
  EXPECT_LE(gradient, 2 * gradient_without);
}

TEST(HeadLowRankTest, EntropyDivergenceAndTopIdsUseIt) {
  const LowRankCase l{{.softcap = 5.0, .chunk_rows = 6}, true};
  const LowRankInputs made = MakeLowRank(l.c);
  const at::Tensor targets = made.in.targets;
  const auto negated_entropy = [](const at::Tensor& z) {
    const at::Tensor log_p = at::log_softmax(z, 1);
    return (log_p.exp() * log_p).sum(1).neg();
  };
  Gradients wanted = Plain(l, made, negated_entropy);
  wanted.bias = at::Tensor();
  ExpectClose(Ours(l, made, true,
                   [&](const at::Tensor& hidden, const std::shared_ptr<Parameter>& head,
                       const ProjectionOptions& options) {
                     return TokenEntropy(hidden, head, targets, 1.0, options);
                   }),
              wanted, 1e-12);

  // KL(q || p) from a reference that has another low-rank term.
  const LowRankCase of_reference{{.softcap = 5.0, .seed = 11}};
  LowRankInputs other = MakeLowRank(of_reference.c);
  other.b = other.b * 0.5;
  at::Tensor log_q;
  Plain(of_reference, other, [&](const at::Tensor& z) {
    log_q = at::log_softmax(z, 1).detach();
    return z.sum(1);
  });
  wanted = Plain(l, made, [&](const at::Tensor& z) {
    return (log_q.exp() * (log_q - at::log_softmax(z, 1))).sum(1);
  });
  wanted.bias = at::Tensor();
  ReferenceHead reference{
      .hidden_TD = other.in.hidden,
      .head_VD = std::make_shared<Parameter>("lm_head.weight", other.in.weight, false),
      .projection = testing::OptionsOf(of_reference.c)};
  reference.projection.head.low_rank = TermOf(of_reference, other, /*trainable=*/false);
  ExpectClose(Ours(l, made, true,
                   [&](const at::Tensor& hidden, const std::shared_ptr<Parameter>& head,
                       const ProjectionOptions& options) {
                     return TokenDivergence(hidden, head, targets, reference, Divergence{},
                                            options);
                   }),
              wanted, 1e-12);
  EXPECT_FALSE(reference.projection.head.low_rank->b_VR->gradient().defined());

  at::Tensor log_p;
  Plain(l, made, [&](const at::Tensor& z) {
    log_p = at::log_softmax(z, 1).detach();
    return z.sum(1);
  });
  ProjectionOptions options = testing::OptionsOf(l.c);
  options.head.low_rank = TermOf(l, made);
  const Parameter head("lm_head.weight", made.in.weight, false);
  const TopLogProbs top =
      TokenTopLogProbs(made.in.hidden, head, targets, 4, /*temperature=*/1.0, options);
  const at::Tensor used = targets.ne(comm::kIgnore).nonzero().squeeze(1);
  EXPECT_LE(Distance(top.log_probs_TK.index_select(0, used),
                     std::get<0>(log_p.index_select(0, used).topk(4, 1))),
            1e-12);
}

TEST(HeadLowRankTest, LogitsAndStatisticsUseIt) {
  const LowRankCase l{{.scale = 0.5, .ignored = 0.0}};
  const LowRankInputs made = MakeLowRank(l.c);
  at::Tensor z;
  Plain(l, made, [&](const at::Tensor& logits) {
    z = logits.detach();
    return logits.sum(1);
  });
  LogProbOptions options = LogProbOptionsOf(testing::OptionsOf(l.c));
  options.head.low_rank = TermOf(l, made);
  const auto head = std::make_shared<Parameter>("lm_head.weight", made.in.weight, false);
  const RowLogits rows = Logits(made.in.hidden, *head, 8, options);
  EXPECT_LE(Distance(rows.logits_NK, z.narrow(1, 0, 8)), 1e-13);
  EXPECT_LE(Distance(rows.logsumexp_N, z.logsumexp(1)), 1e-13);
  const LogProbs with = TokenLogProb(made.in.hidden, head, made.in.targets, options,
                                     {.mean_logit = true, .greedy = true});
  EXPECT_LE(Distance(with.statistics.mean_logit_T, z.mean(1)), 1e-12);
  EXPECT_TRUE(at::equal(with.statistics.greedy_T, z.argmax(1)));
}

TEST(HeadLowRankTest, ComposedEqualsChunked) {
  const LowRankCase l{{.scale = 0.5, .softcap = 3.0}, true};
  const LowRankInputs made = MakeLowRank(l.c);
  ProjectionOptions options = testing::OptionsOf(l.c);
  options.head.low_rank = TermOf(l, made);
  const auto leaf = [](const at::Tensor& tensor) { return tensor.clone().requires_grad_(); };
  const at::Tensor hidden = leaf(made.in.hidden), a = leaf(made.a), b = leaf(made.b);
  const at::Tensor values = ComposedLogProb(hidden, made.in.weight, made.in.targets, options.head,
                                            /*temperature=*/1.0, {a, b});
  (values * made.in.upstream).sum().backward();
  const Gradients ours = Ours(l, made, true, LogProbOf(made.in.targets));
  ExpectClose(ours, {values.detach(), hidden.grad(), {}, {}, a.grad(), b.grad()}, 1e-12);
}

// With B = 0 the term changes nothing, and only B has a gradient.
TEST(HeadLowRankTest, ANewTermIsNone) {
  const LowRankCase l{{.chunk_rows = 8, .dtype = at::kFloat}};
  LowRankInputs made = MakeLowRank(l.c);
  made.b.zero_();
  const Gradients with = Ours(l, made, true, LogProbOf(made.in.targets));
  const auto head = std::make_shared<Parameter>("lm_head.weight", made.in.weight, false);
  const at::Tensor hidden = made.in.hidden.clone().requires_grad_();
  const at::Tensor values =
      TokenLogProb(hidden, head, made.in.targets, LogProbOptionsOf(testing::OptionsOf(l.c)));
  (values * made.in.upstream).sum().backward();
  EXPECT_TRUE(at::equal(with.values, values));
  EXPECT_TRUE(at::equal(with.hidden, hidden.grad()));
  EXPECT_EQ(with.a.abs().max().item<float>(), 0.0F);
  EXPECT_GT(with.b.abs().max().item<float>(), 0.0F);
}

TEST(HeadLowRankTest, RefusesShapes) {
  const LowRankCase l{{}, true};
  const LowRankInputs made = MakeLowRank(l.c);
  const auto head = std::make_shared<Parameter>("lm_head.weight", made.in.weight);
  const auto refused = [&](const std::function<void(HeadLowRank&)>& change,
                           const std::string& words) {
    LogProbOptions options;
    options.head.low_rank = TermOf(l, made);
    change(*options.head.low_rank);
    testing::ExpectRefused([&] { TokenLogProb(made.in.hidden, head, made.in.targets, options); },
                           words);
  };
  refused([&](HeadLowRank& term) { term.b_VR = term.a_RD; }, "for a head of shape [29, 12]");
  refused([&](HeadLowRank& term) { term.a_RD = nullptr; }, "without A or B");
  refused([&](HeadLowRank& term) { term.dropout = 1.0; }, "dropout 1, expected 0 <= rate < 1");
  refused([&](HeadLowRank& term) { term.identity_T = term.identity_T.narrow(0, 0, 3); },
          "expected int64 [37]");
}

}  // namespace
}  // namespace moonring::objectives
