#include "objectives/log_prob.h"

#include <algorithm>
#include <functional>
#include <string>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "comm/sequence.h"

namespace moonring::objectives {
namespace {

using base::Parameter;

struct LogProbCase {
  int64_t tokens = 37, hidden = 12, vocab = 29;
  double scale = 1.0, softcap = 0.0;
  bool bias = false;
  int64_t chunk_rows = 1000;
  double ignored = 0.4;  // share of rows without a target
  at::ScalarType dtype = at::kDouble;
  double smoothing = 0.0;
  double temperature = 1.0;
};

struct Inputs {
  at::Tensor hidden, weight, bias, targets, upstream;
};

Inputs MakeInputs(const LogProbCase& c) {
  auto generator = at::detail::createCPUGenerator(7);
  const auto normal = [&](at::IntArrayRef sizes) {
    return at::randn(sizes, generator, at::kDouble).to(c.dtype);
  };
  Inputs in{normal({c.tokens, c.hidden}), normal({c.vocab, c.hidden}), normal({c.vocab}),
            at::randint(0, c.vocab, {c.tokens}, generator, at::kLong), normal({c.tokens})};
  in.targets.masked_fill_(at::rand({c.tokens}, generator, at::kDouble).lt(c.ignored),
                          comm::kIgnore);
  return in;
}

struct LogProbResult {
  at::Tensor log_prob, hidden_gradient, weight_gradient, bias_gradient;
};

LogProbOptions OptionsOf(const LogProbCase& c) {
  LogProbOptions options;
  options.head.scale = c.scale;
  options.head.softcap = c.softcap;
  options.label_smoothing = c.smoothing;
  options.temperature = c.temperature;
  options.chunk_bytes = c.chunk_rows * c.vocab * static_cast<int64_t>(c10::elementSize(c.dtype));
  return options;
}

LogProbResult Ours(const LogProbCase& c, const Inputs& in, LogProbOptions options) {
  auto head = std::make_shared<Parameter>("lm_head.weight", in.weight.clone());
  if (c.bias) options.head.bias_V = std::make_shared<Parameter>("lm_head.bias", in.bias.clone());
  at::Tensor hidden = in.hidden.clone().requires_grad_();
  at::Tensor log_prob = TokenLogProb(hidden, head, in.targets, options);
  (log_prob * in.upstream).sum().backward();
  return {log_prob.detach(), hidden.grad(), head->gradient(),
          c.bias ? options.head.bias_V->gradient() : at::Tensor()};
}

// Computes the same with LibTorch's autograd over the whole [tokens, vocab] matrix.
LogProbResult Plain(const LogProbCase& c, const Inputs& in) {
  at::Tensor hidden = in.hidden.clone().requires_grad_(),
             weight = in.weight.clone().requires_grad_(), bias = in.bias.clone().requires_grad_();
  at::Tensor logits = hidden.matmul(weight.t());
  if (c.bias) logits = logits + bias;
  logits = logits * c.scale;
  if (c.softcap != 0.0) logits = (logits / c.softcap).tanh() * c.softcap;
  logits = logits / c.temperature;
  const at::Tensor learnt = in.targets.ne(comm::kIgnore);
  const at::Tensor all = at::log_softmax(logits, 1);
  at::Tensor picked = all.gather(1, in.targets.clamp_min(0).unsqueeze(1)).squeeze(1);
  if (c.smoothing != 0.0) picked = (1 - c.smoothing) * picked + c.smoothing * all.mean(1);
  at::Tensor log_prob = at::where(learnt, picked, at::zeros_like(picked));
  (log_prob * in.upstream).sum().backward();
  return {log_prob.detach(), hidden.grad(), weight.grad(), c.bias ? bias.grad() : at::Tensor()};
}

double Distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>() /
         std::max(1e-300, b.to(at::kDouble).norm().item<double>());
}

void ExpectClose(const LogProbResult& ours, const LogProbResult& wanted, double bound) {
  EXPECT_LE(Distance(ours.log_prob, wanted.log_prob), bound);
  EXPECT_LE(Distance(ours.hidden_gradient, wanted.hidden_gradient), bound);
  EXPECT_LE(Distance(ours.weight_gradient, wanted.weight_gradient), bound);
  if (wanted.bias_gradient.defined()) {
    EXPECT_LE(Distance(ours.bias_gradient, wanted.bias_gradient), bound);
  }
}

// In fp64 only the order of sums differs: bound 1e-12, some thousand roundings.
TEST(LogProbTest, EqualsPlainAutogradInFp64) {
  for (const int64_t chunk_rows : {1, 2, 5, 8, 22, 1000}) {
    for (const double softcap : {0.0, 3.0}) {
      for (const double scale : {1.0, 0.25}) {
        for (const bool bias : {false, true}) {
          for (const double smoothing : {0.0, 0.15}) {
            for (const double temperature : {1.0, 0.7}) {
              SCOPED_TRACE(::testing::Message()
                           << "rows " << chunk_rows << " softcap " << softcap << " scale " << scale
                           << " bias " << bias << " smoothing " << smoothing << " temperature "
                           << temperature);
              const LogProbCase c{.scale = scale,
                                  .softcap = softcap,
                                  .bias = bias,
                                  .chunk_rows = chunk_rows,
                                  .smoothing = smoothing,
                                  .temperature = temperature};
              const Inputs in = MakeInputs(c);
              ExpectClose(Ours(c, in, OptionsOf(c)), Plain(c, in), 1e-12);
            }
          }
        }
      }
    }
  }
}

TEST(LogProbTest, EveryRowHasATarget) {
  const LogProbCase c{.chunk_rows = 10, .ignored = 0.0};
  const Inputs in = MakeInputs(c);
  ExpectClose(Ours(c, in, OptionsOf(c)), Plain(c, in), 1e-12);
}

// In fp32, with a vocabulary of some thousands and rows over several blocks and chunks, the bound
// is 2e-6, as for attention outputs.
TEST(LogProbTest, Fp32WithinBoundsOfFp64) {
  for (const double softcap : {0.0, 20.0}) {
    const LogProbCase c{.tokens = 300,
                        .hidden = 64,
                        .vocab = 5000,
                        .scale = 0.3,
                        .softcap = softcap,
                        .bias = true,
                        .chunk_rows = 70,
                        .dtype = at::kFloat,
                        .smoothing = softcap == 0.0 ? 0.1 : 0.0};
    const Inputs in = MakeInputs(c);
    Inputs exact = in;
    for (at::Tensor* t : {&exact.hidden, &exact.weight, &exact.bias, &exact.upstream})
      *t = t->to(at::kDouble);
    const LogProbResult ours = Ours(c, in, OptionsOf(c));
    EXPECT_EQ(ours.log_prob.scalar_type(), at::kFloat);
    ExpectClose(ours, Plain(c, exact), 2e-6);
  }
}

// With the matmul in 16 bits and everything else in fp32, the error is at most one and a half times
// that of autocast's linear and cross entropy.
void ExpectNoWorseThanAutocast(at::ScalarType narrow, double loss_scale) {
  SCOPED_TRACE(narrow);
  const LogProbCase c{.tokens = 300,
                      .hidden = 64,
                      .vocab = 5000,
                      .scale = 1.0,
                      .chunk_rows = 70,
                      .dtype = at::kFloat};
  Inputs in = MakeInputs(c);
  in.weight.mul_(0.2);
  in.upstream.mul_(loss_scale);
  Inputs exact = in;
  for (at::Tensor* t : {&exact.hidden, &exact.weight, &exact.upstream}) *t = t->to(at::kDouble);
  const LogProbResult wanted = Plain(c, exact);
  LogProbOptions options = OptionsOf(c);
  options.matmul_dtype = narrow;
  const LogProbResult ours = Ours(c, in, options);

  at::Tensor hidden = in.hidden.clone().requires_grad_(),
             weight = in.weight.clone().requires_grad_();
  const at::Tensor logits = hidden.to(narrow).matmul(weight.to(narrow).t()).to(at::kFloat);
  const at::Tensor picked =
      at::log_softmax(logits, 1).gather(1, in.targets.clamp_min(0).unsqueeze(1)).squeeze(1);
  const at::Tensor log_prob =
      at::where(in.targets.ne(comm::kIgnore), picked, at::zeros_like(picked));
  (log_prob * in.upstream).sum().backward();
  EXPECT_LE(Distance(ours.log_prob, wanted.log_prob), 1.5 * Distance(log_prob, wanted.log_prob));
  EXPECT_LE(Distance(ours.hidden_gradient, wanted.hidden_gradient),
            1.5 * Distance(hidden.grad(), wanted.hidden_gradient));
  EXPECT_LE(Distance(ours.weight_gradient, wanted.weight_gradient),
            1.5 * Distance(weight.grad(), wanted.weight_gradient));
  EXPECT_EQ(ours.weight_gradient.scalar_type(), at::kFloat);
}

TEST(LogProbTest, Bf16MatmulNoWorseThanAutocast) { ExpectNoWorseThanAutocast(at::kBFloat16, 1.0); }

// fp16, with probabilities below its range, and with a loss scale so large that hidden states times
// the scale would be infinite.
TEST(LogProbTest, Fp16MatmulNoWorseThanAutocast) {
  for (const double scale : {1.0 / 1024.0, 1.0, 4096.0})
    ExpectNoWorseThanAutocast(at::kHalf, scale);
}

// On a sharded stream, each rank's rows give the whole stream's log-probs bit for bit (rows are
// independent; there are at least 64, so that the matmul uses the same code path), and the weight
// gradients add up.
TEST(LogProbTest, RowsOfRanksGiveTheWhole) {
  const LogProbCase c{.tokens = 256,
                      .hidden = 64,
                      .vocab = 3000,
                      .chunk_rows = 1000,
                      .ignored = 0.0,
                      .dtype = at::kFloat};
  const Inputs in = MakeInputs(c);
  const LogProbResult whole = Ours(c, in, OptionsOf(c));
  at::Tensor weight_gradient = at::zeros_like(whole.weight_gradient);
  for (const int64_t begin : {0, 64, 160}) {
    const int64_t end = begin == 0 ? 64 : begin == 64 ? 160 : 256;
    const Inputs part{in.hidden.slice(0, begin, end), in.weight, in.bias,
                      in.targets.slice(0, begin, end), in.upstream.slice(0, begin, end)};
    const LogProbResult ours = Ours(c, part, OptionsOf(c));
    EXPECT_TRUE(at::equal(ours.log_prob, whole.log_prob.slice(0, begin, end)));
    weight_gradient += ours.weight_gradient;
  }
  EXPECT_LE(Distance(weight_gradient, whole.weight_gradient), 2e-6);
}

TEST(LogProbTest, NoTargetsAndNoTokens) {
  for (const int64_t tokens : {0, 5}) {
    const LogProbCase c{.tokens = tokens, .bias = true, .ignored = 2.0};
    const LogProbResult ours = Ours(c, MakeInputs(c), OptionsOf(c));
    EXPECT_EQ(ours.log_prob.numel(), tokens);
    EXPECT_TRUE(ours.log_prob.eq(0).all().item<bool>());
    EXPECT_TRUE(ours.hidden_gradient.eq(0).all().item<bool>());
    ASSERT_TRUE(ours.weight_gradient.defined());
    EXPECT_TRUE(ours.weight_gradient.eq(0).all().item<bool>());
    EXPECT_TRUE(ours.bias_gradient.eq(0).all().item<bool>());
  }
}

TEST(LogProbTest, GradientsAddUpInTheSink) {
  const LogProbCase c;
  const Inputs in = MakeInputs(c);
  auto head = std::make_shared<Parameter>("lm_head.weight", in.weight.clone());
  at::Tensor hidden = in.hidden.clone().requires_grad_();
  for (int micro = 0; micro < 3; ++micro)
    (TokenLogProb(hidden, head, in.targets) * in.upstream).sum().backward();
  EXPECT_LE(Distance(head->gradient(), Plain(c, in).weight_gradient * 3), 1e-12);
}

// Two backwards of one graph: the first one frees what the forward saved, the second one recomputes
// the logits.
TEST(LogProbTest, TwoBackwardsOfOneGraph) {
  const LogProbCase c;
  const Inputs in = MakeInputs(c);
  auto head = std::make_shared<Parameter>("lm_head.weight", in.weight.clone());
  at::Tensor hidden = in.hidden.clone().requires_grad_();
  const at::Tensor sum = (TokenLogProb(hidden, head, in.targets) * in.upstream).sum();
  sum.backward({}, /*retain_graph=*/true);
  sum.backward();
  EXPECT_LE(Distance(head->gradient(), Plain(c, in).weight_gradient * 2), 1e-12);
  EXPECT_LE(Distance(hidden.grad(), Plain(c, in).hidden_gradient * 2), 1e-12);
}

TEST(LogProbTest, FrozenHeadAndFrozenHidden) {
  const LogProbCase c;
  const Inputs in = MakeInputs(c);
  const LogProbResult wanted = Plain(c, in);
  auto frozen =
      std::make_shared<Parameter>("lm_head.weight", in.weight.clone(), /*trainable=*/false);
  at::Tensor hidden = in.hidden.clone().requires_grad_();
  (TokenLogProb(hidden, frozen, in.targets) * in.upstream).sum().backward();
  EXPECT_FALSE(frozen->gradient().defined());
  EXPECT_LE(Distance(hidden.grad(), wanted.hidden_gradient), 1e-12);

  // If hidden states need no gradient (everything below is frozen), the head is still trained.
  auto head = std::make_shared<Parameter>("lm_head.weight", in.weight.clone());
  (TokenLogProb(in.hidden, head, in.targets) * in.upstream).sum().backward();
  EXPECT_LE(Distance(head->gradient(), wanted.weight_gradient), 1e-12);

  at::NoGradGuard no_grad;
  EXPECT_FALSE(TokenLogProb(hidden, head, in.targets).requires_grad());
}

// Logits of thousands: without subtracting the maximum, exp would overflow. The probabilities of
// all other tokens are zero.
TEST(LogProbTest, LargeLogits) {
  LogProbCase c{.dtype = at::kFloat};
  Inputs in = MakeInputs(c);
  in.hidden.mul_(1000);
  Inputs exact = in;
  for (at::Tensor* t : {&exact.hidden, &exact.weight, &exact.bias, &exact.upstream})
    *t = t->to(at::kDouble);
  const LogProbResult ours = Ours(c, in, OptionsOf(c));
  EXPECT_TRUE(at::isfinite(ours.weight_gradient).all().item<bool>());
  EXPECT_LE(Distance(ours.log_prob, Plain(c, exact).log_prob), 2e-6);
}

TEST(LogProbTest, FiniteDifferencesOfTheHead) {
  const LogProbCase c{
      .tokens = 6, .hidden = 3, .vocab = 5, .scale = 0.7, .softcap = 2.0, .temperature = 1.4};
  const Inputs in = MakeInputs(c);
  const LogProbResult ours = Ours(c, in, OptionsOf(c));
  const auto value = [&](const at::Tensor& weight) {
    at::NoGradGuard no_grad;
    auto head = std::make_shared<Parameter>("lm_head.weight", weight);
    return (TokenLogProb(in.hidden, head, in.targets, OptionsOf(c)) * in.upstream)
        .sum()
        .item<double>();
  };
  constexpr double kStep = 1e-5;  // central differences: error about 1e-10
  for (int64_t i = 0; i < in.weight.numel(); ++i) {
    at::Tensor up = in.weight.clone(), down = in.weight.clone();
    up.view({-1})[i] += kStep;
    down.view({-1})[i] -= kStep;
    EXPECT_NEAR(ours.weight_gradient.reshape({-1})[i].item<double>(),
                (value(up) - value(down)) / (2 * kStep), 1e-8);
  }
}

// Statistics equal those computed from whole logits, with fewer and with more ids than top_entropy
// uses.
TEST(LogProbTest, StatisticsOfRows) {
  for (const int64_t vocab : {7, 29}) {
    for (const int64_t chunk_rows : {1, 5, 1000}) {
      for (const double softcap : {0.0, 3.0}) {
        const LogProbCase c{.vocab = vocab,
                            .scale = 0.5,
                            .softcap = softcap,
                            .bias = true,
                            .chunk_rows = chunk_rows,
                            .temperature = 0.8};
        const Inputs in = MakeInputs(c);
        LogProbOptions options = OptionsOf(c);
        options.head.bias_V = std::make_shared<Parameter>("lm_head.bias", in.bias);
        const auto head = std::make_shared<Parameter>("lm_head.weight", in.weight);
        const LogProbs result = TokenLogProb(
            in.hidden, head, in.targets, options,
            {.mean_logit = true, .greedy = true, .top_entropy = true, .entropy = true});
        EXPECT_TRUE(at::equal(result.log_prob_T.detach(),
                              TokenLogProb(in.hidden, head, in.targets, options).detach()));
        EXPECT_FALSE(result.statistics.mean_logit_T.requires_grad() ||
                     result.statistics.top_entropy_T.requires_grad() ||
                     result.statistics.entropy_T.requires_grad());

        at::Tensor logits = (in.hidden.matmul(in.weight.t()) + in.bias) * 0.5;
        if (softcap != 0.0) logits = (logits / softcap).tanh() * softcap;
        logits = logits / c.temperature;
        const at::Tensor learnt = in.targets.ne(comm::kIgnore);
        const at::Tensor p = at::softmax(std::get<0>(logits.sort(1, /*descending=*/true))
                                             .narrow(1, 0, std::min<int64_t>(20, vocab)),
                                         1);
        EXPECT_LE(Distance(result.statistics.mean_logit_T, logits.mean(1) * learnt), 1e-14);
        EXPECT_LE(Distance(result.statistics.top_entropy_T, -(p * p.log()).sum(1) * learnt), 1e-14);
        const at::Tensor q = at::softmax(logits, 1);
        EXPECT_LE(Distance(result.statistics.entropy_T, -(q * q.log()).sum(1) * learnt), 1e-14);
        EXPECT_TRUE(at::equal(result.statistics.greedy_T, at::where(learnt, logits.argmax(1), -1)));
      }
    }
  }
  const LogProbCase none{.tokens = 0};
  const Inputs in = MakeInputs(none);
  const TokenStatistics empty =
      TokenLogProb(in.hidden, std::make_shared<Parameter>("lm_head.weight", in.weight), in.targets,
                   {}, {.greedy = true})
          .statistics;
  EXPECT_EQ(empty.greedy_T.numel(), 0);
  EXPECT_FALSE(empty.mean_logit_T.defined());
}

TEST(LogProbTest, LogitsOfRows) {
  const LogProbCase c{.scale = 0.5, .softcap = 4.0, .chunk_rows = 3};
  const Inputs in = MakeInputs(c);
  const RowLogits rows = Logits(in.hidden, Parameter("lm_head.weight", in.weight), 8, OptionsOf(c));
  const at::Tensor logits = (in.hidden.matmul(in.weight.t()) * (0.5 / 4.0)).tanh() * 4.0;
  EXPECT_LE(Distance(rows.logits_NK, logits.narrow(1, 0, 8)), 1e-14);
  EXPECT_LE(Distance(rows.logsumexp_N, logits.logsumexp(1)), 1e-14);
  EXPECT_EQ(Logits(in.hidden.narrow(0, 0, 0), Parameter("lm_head.weight", in.weight), 8)
                .logsumexp_N.numel(),
            0);
}

void ExpectRefused(const std::function<void()>& call, const std::string& words) {
  try {
    call();
    FAIL() << "nothing was thrown; expected: " << words;
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find(words), std::string::npos)
        << error.what_without_backtrace();
  }
}

TEST(LogProbTest, WrongCalls) {
  const LogProbCase c{.ignored = 0.0};
  const Inputs in = MakeInputs(c);
  auto head = std::make_shared<Parameter>("lm_head.weight", in.weight);
  ExpectRefused([&] { TokenLogProb(in.hidden.narrow(1, 0, 5), head, in.targets); },
                "hidden states of shape [37, 5], head lm_head.weight of shape [29, 12]");
  ExpectRefused([&] { TokenLogProb(in.hidden, head, in.targets.narrow(0, 0, 3)); },
                "expected int64 [37]");
  ExpectRefused([&] { TokenLogProb(in.hidden, head, in.targets + 20); },
                "the vocabulary has 29 ids");
  ExpectRefused([&] { TokenLogProb(in.hidden, head, in.targets - 1000); }, "a target is -");
  ExpectRefused([&] { TokenLogProb(in.hidden, head, in.targets, {.label_smoothing = 1.0}); },
                "label_smoothing is 1, expected 0 to less than 1");
  for (const double temperature : {0.0, -1.0}) {
    ExpectRefused([&] { TokenLogProb(in.hidden, head, in.targets, {.temperature = temperature}); },
                  "expected more than 0");
  }
  at::Tensor hidden = in.hidden.clone().requires_grad_();
  const at::Tensor sum = TokenLogProb(hidden, head, in.targets).sum();
  ExpectRefused([&] { sum.backward({}, /*retain_graph=*/true, /*create_graph=*/true); },
                "a second derivative");
}

}  // namespace
}  // namespace moonring::objectives
