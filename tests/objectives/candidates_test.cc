// TokenLogProb with several candidate targets at one position, targets [T, K].

#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "base/autograd/parameter.h"
#include "comm/sequence.h"
#include "objectives/composed_log_prob.h"
#include "objectives/log_prob.h"
#include "tests/objectives/vocabulary/plain_rows.h"
#include "tests/testing/finite_differences.h"

namespace moonring::objectives {
namespace {

using base::Parameter;

constexpr int64_t kCandidates = 3;

// Candidates of each row: some absent (both marks), some rows without any, some ids twice.
at::Tensor CandidatesOf(const testing::Case& c, int64_t candidates = kCandidates) {
  auto generator = at::detail::createCPUGenerator(5);
  at::Tensor targets_TK = at::randint(0, c.vocab, {c.tokens, candidates}, generator, at::kLong);
  const at::Tensor draw = at::rand({c.tokens, candidates}, generator, at::kDouble);
  targets_TK.masked_fill_(draw.lt(0.2), comm::kIgnore);
  targets_TK.masked_fill_(draw.gt(0.8), kNoCandidate);
  targets_TK[4].fill_(comm::kIgnore);
  targets_TK[6].fill_(kNoCandidate);
  targets_TK[7].fill_(2);
  return targets_TK;
}

struct FoundCandidates {
  at::Tensor log_prob, hidden, weight, bias;
};

at::Tensor UpstreamOf(const at::Tensor& targets_TK, at::ScalarType dtype) {
  auto generator = at::detail::createCPUGenerator(6);
  return at::randn(targets_TK.sizes(), generator, at::kDouble).to(dtype);
}

LogProbOptions CandidateOptions(const testing::Case& c, double smoothing) {
  const ProjectionOptions projection = testing::OptionsOf(c);
  return {
      .head = projection.head, .label_smoothing = smoothing, .chunk_bytes = projection.chunk_bytes};
}

FoundCandidates OurCandidates(const testing::Case& c, const testing::Inputs& in,
                              const at::Tensor& targets, LogProbOptions options) {
  const auto head = std::make_shared<Parameter>("lm_head.weight", in.weight.clone());
  if (c.bias) options.head.bias_V = std::make_shared<Parameter>("lm_head.bias", in.bias.clone());
  const at::Tensor hidden = in.hidden.clone().requires_grad_(),
                   log_prob = TokenLogProb(hidden, head, targets, options);
  (log_prob * UpstreamOf(targets, c.dtype)).sum().backward();
  return {log_prob.detach(), hidden.grad(), head->gradient(),
          c.bias ? options.head.bias_V->gradient() : at::Tensor()};
}

FoundCandidates PlainCandidates(const testing::Case& c, const testing::Inputs& in,
                                const at::Tensor& targets_TK, double smoothing) {
  const auto leaf = [](const at::Tensor& tensor) { return tensor.clone().requires_grad_(); };
  const at::Tensor hidden = leaf(in.hidden), weight = leaf(in.weight), bias = leaf(in.bias);
  const at::Tensor log_p = at::log_softmax(testing::PlainLogits(c, hidden, weight, bias), 1);
  at::Tensor log_prob = log_p.gather(1, targets_TK.clamp_min(0));
  if (smoothing != 0.0)
    log_prob = (1 - smoothing) * log_prob + smoothing * log_p.mean(1, /*keepdim=*/true);
  log_prob = at::where(targets_TK.ge(0), log_prob, at::zeros_like(log_prob));
  (log_prob * UpstreamOf(targets_TK, c.dtype)).sum().backward();
  return {log_prob.detach(), hidden.grad(), weight.grad(), c.bias ? bias.grad() : at::Tensor()};
}

// In fp64 only the order of sums differs: bound 1e-12, some thousand roundings.
TEST(CandidatesTest, EqualPlainAutogradInFp64) {
  for (const int64_t chunk_rows : {1, 5, 22, 1000}) {
    for (const double softcap : {0.0, 3.0}) {
      for (const double smoothing : {0.0, 0.15}) {
        SCOPED_TRACE(::testing::Message() << chunk_rows << " " << softcap << " " << smoothing);
        const testing::Case c{
            .scale = 0.5, .softcap = softcap, .bias = true, .chunk_rows = chunk_rows};
        const testing::Inputs in = testing::MakeInputs(c);
        const at::Tensor targets = CandidatesOf(c);
        const FoundCandidates ours = OurCandidates(c, in, targets, CandidateOptions(c, smoothing)),
                              wanted = PlainCandidates(c, in, targets, smoothing);
        EXPECT_EQ(ours.log_prob.sizes(), targets.sizes());
        EXPECT_LE(testing::Distance(ours.log_prob, wanted.log_prob), 1e-12);
        EXPECT_LE(testing::Distance(ours.hidden, wanted.hidden), 1e-12);
        EXPECT_LE(testing::Distance(ours.weight, wanted.weight), 1e-12);
        EXPECT_LE(testing::Distance(ours.bias, wanted.bias), 1e-12);
        EXPECT_TRUE(ours.log_prob.masked_select(targets.lt(0)).eq(0).all().item<bool>());
      }
    }
  }
}

TEST(CandidatesTest, Fp32WithinBoundsOfFp64) {
  const testing::Case c{
      .tokens = 300, .hidden = 64, .vocab = 5000, .chunk_rows = 70, .dtype = at::kFloat};
  const testing::Inputs in = testing::MakeInputs(c);
  const at::Tensor targets = CandidatesOf(c);
  const FoundCandidates ours = OurCandidates(c, in, targets, CandidateOptions(c, 0.0));
  testing::Inputs wide = testing::InFp64(in);
  const testing::Case wide_case{.tokens = 300, .hidden = 64, .vocab = 5000};
  const at::Tensor log_p =
      at::log_softmax(testing::PlainLogits(wide_case, wide.hidden, wide.weight, wide.bias), 1);
  const at::Tensor wanted =
      at::where(targets.ge(0), log_p.gather(1, targets.clamp_min(0)), at::zeros({}, at::kDouble));
  EXPECT_LE(testing::Distance(ours.log_prob, wanted), 2e-6);
  const at::Tensor upstream = at::where(
      targets.ge(0), UpstreamOf(targets, at::kFloat).to(at::kDouble), at::zeros({}, at::kDouble));
  const at::Tensor dz = at::zeros_like(log_p).scatter_add_(1, targets.clamp_min(0), upstream) -
                        log_p.exp() * upstream.sum(1, /*keepdim=*/true);
  EXPECT_LE(testing::Distance(ours.hidden, dz.matmul(wide.weight)), 2e-6);
  EXPECT_LE(testing::Distance(ours.weight, dz.t().matmul(wide.hidden)), 2e-6);
}

TEST(CandidatesTest, GradientByFiniteDifferences) {
  const testing::Case c{.tokens = 9, .scale = 0.5, .softcap = 4.0, .chunk_rows = 4};
  const testing::Inputs in = testing::MakeInputs(c);
  const at::Tensor targets = CandidatesOf(c);
  const FoundCandidates ours = OurCandidates(c, in, targets, CandidateOptions(c, 0.0));
  const auto head = std::make_shared<Parameter>("lm_head.weight", in.weight, false);
  const auto loss = [&] {
    const at::NoGradGuard no_grad;
    return (TokenLogProb(in.hidden, head, targets, CandidateOptions(c, 0.0)) *
            UpstreamOf(targets, c.dtype))
        .sum()
        .item<double>();
  };
  const at::Tensor measured = ::moonring::testing::FiniteDifferences(loss, in.hidden);
  EXPECT_LE((measured - ours.hidden).abs().max().item<double>(),
            ::moonring::testing::kDifferenceBound);
}

// One candidate is a target, bit for bit; so are the numbers of any candidate among others.
TEST(CandidatesTest, OneIsATargetBitForBit) {
  for (const int64_t chunk_rows : {7, 1000}) {
    const testing::Case c{.softcap = 3.0, .chunk_rows = chunk_rows, .dtype = at::kFloat};
    const testing::Inputs in = testing::MakeInputs(c);
    at::Tensor targets_T1 = CandidatesOf(c, 1);
    const at::Tensor targets_T = targets_T1.masked_fill(targets_T1.lt(0), comm::kIgnore).squeeze(1);
    const FoundCandidates one = OurCandidates(c, in, targets_T1, CandidateOptions(c, 0.1));
    const auto head = std::make_shared<Parameter>("lm_head.weight", in.weight.clone());
    const at::Tensor hidden = in.hidden.clone().requires_grad_(),
                     log_prob = TokenLogProb(hidden, head, targets_T, CandidateOptions(c, 0.1));
    (log_prob * UpstreamOf(targets_T1, c.dtype).squeeze(1)).sum().backward();
    EXPECT_TRUE(at::equal(one.log_prob.squeeze(1), log_prob));
    EXPECT_TRUE(at::equal(one.hidden, hidden.grad()));
    EXPECT_TRUE(at::equal(one.weight, head->gradient()));
    const at::Tensor none_T1 = at::full_like(targets_T1, kNoCandidate),
                     many = TokenLogProb(in.hidden, head, at::cat({none_T1, targets_T1}, 1),
                                         CandidateOptions(c, 0.1));
    EXPECT_TRUE(at::equal(many.select(1, 1), log_prob));
    EXPECT_TRUE(many.select(1, 0).eq(0).all().item<bool>());
  }
}

TEST(CandidatesTest, ComposedIsTheSame) {
  const testing::Case c{.scale = 0.5, .softcap = 3.0};
  const testing::Inputs in = testing::MakeInputs(c);
  const at::Tensor targets = CandidatesOf(c);
  const at::Tensor composed =
      ComposedLogProb(in.hidden, in.weight, targets, testing::OptionsOf(c).head, 1.0);
  EXPECT_LE(testing::Distance(composed, PlainCandidates(c, in, targets, 0.0).log_prob), 1e-12);
}

TEST(CandidatesTest, StatisticsAreOfRows) {
  const testing::Case c{};
  const testing::Inputs in = testing::MakeInputs(c);
  const at::Tensor targets = CandidatesOf(c);
  const auto head = std::make_shared<Parameter>("lm_head.weight", in.weight);
  const LogProbs found = TokenLogProb(in.hidden, head, targets, CandidateOptions(c, 0.0),
                                      {.mean_logit = true, .greedy = true, .entropy = true});
  const at::Tensor z = testing::PlainLogits(c, in.hidden, in.weight, in.bias),
                   used = targets.ge(0).any(1);
  EXPECT_TRUE(at::equal(found.statistics.greedy_T,
                        at::where(used, z.argmax(1), at::full({}, -1, at::kLong))));
  EXPECT_LE(testing::Distance(found.statistics.mean_logit_T, z.mean(1) * used), 1e-12);
  EXPECT_EQ(found.statistics.entropy_T.dim(), 1);
}

TEST(CandidatesTest, NoneAndRefusals) {
  const testing::Case c{};
  const testing::Inputs in = testing::MakeInputs(c);
  const auto head = std::make_shared<Parameter>("lm_head.weight", in.weight);
  const at::Tensor none = at::full({c.tokens, 2}, kNoCandidate, at::kLong),
                   hidden = in.hidden.clone().requires_grad_(),
                   log_prob = TokenLogProb(hidden, head, none, CandidateOptions(c, 0.0));
  log_prob.sum().backward();
  EXPECT_TRUE(log_prob.eq(0).all().item<bool>());
  EXPECT_TRUE(hidden.grad().eq(0).all().item<bool>());
  const auto refused = [&](const at::Tensor& targets) {
    EXPECT_THROW(TokenLogProb(in.hidden, head, targets, CandidateOptions(c, 0.0)), c10::Error);
  };
  refused(at::full({c.tokens, 2}, c.vocab, at::kLong));
  refused(at::full({c.tokens, 2}, -2, at::kLong));
  refused(at::full({c.tokens}, kNoCandidate, at::kLong));  // of one target only kIgnore is none
  refused(at::zeros({c.tokens, 0}, at::kLong));
  refused(at::zeros({c.tokens - 1, 2}, at::kLong));
}

}  // namespace
}  // namespace moonring::objectives
