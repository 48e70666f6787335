#include "objectives/vocabulary/top_divergence.h"

#include <cmath>
#include <limits>
#include <memory>
#include <tuple>

#include <ATen/ATen.h>

#include "gtest/gtest.h"
#include "objectives/vocabulary/divergence.h"
#include "objectives/vocabulary/top_log_probs.h"
#include "tests/objectives/vocabulary/plain_rows.h"

namespace moonring::objectives::testing {
namespace {

using base::Parameter;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

Call AgainstTheTop(const ReferenceTop& reference, const at::Tensor& targets,
                   const Divergence& how) {
  return [=](const at::Tensor& hidden, const std::shared_ptr<Parameter>& head,
             const ProjectionOptions& options) {
    return TokenDivergence(hidden, head, targets, reference, how, options);
  };
}

// Returns the sum of a log(a / b), where terms with a = 0 are 0.
at::Tensor Kl(const at::Tensor& a, const at::Tensor& b) {
  return at::where(a > 0, a * (at::where(a > 0, a, at::ones_like(a)) / b).log(), 0.0).sum(1);
}

// Computes the divergence from its definition, in probabilities of the outcomes.
at::Tensor PlainTopDivergence(const Divergence& how, const at::Tensor& z, const ReferenceTop& top) {
  at::Tensor p = at::softmax(z / how.temperature, 1).gather(1, top.ids_TK),
             q = top.log_probs_TK.exp();
  const at::Tensor p_rest = 1 - p.sum(1, true), q_rest = 1 - q.sum(1, true);
  if (top.rest == Rest::kBucket) {
    p = at::cat({p, p_rest}, 1);
    q = at::cat({q, q_rest}, 1);
  } else {
    q = q / q.sum(1, true);
    if (top.rest == Rest::kRenormalize) p = p / p.sum(1, true);
    if (top.rest == Rest::kZero) {
      p = at::cat({p, p_rest}, 1);
      q = at::cat({q, at::zeros_like(q_rest)}, 1);
    }
  }
  if (how.kind == DivergenceKind::kForward) return Kl(q, p);
  if (how.kind == DivergenceKind::kReverse) return Kl(p, q);
  const at::Tensor m = how.beta * q + (1 - how.beta) * p;
  return how.beta * Kl(q, m) + (1 - how.beta) * Kl(p, m);
}

const Divergence kEveryTop[] = {
    {},
    {.kind = DivergenceKind::kReverse},
    {.kind = DivergenceKind::kJs, .beta = 0.3},
    {.temperature = 2.0},
    {.kind = DivergenceKind::kReverse, .temperature = 0.8},
    {.kind = DivergenceKind::kJs, .temperature = 1.5},
};

// Returns another model's log-probs of all ids, from which the top ids are taken.
at::Tensor ReferenceLogProbs(const Case& c) {
  return at::log_softmax(
      at::randn({c.tokens, c.vocab}, at::detail::createCPUGenerator(5), at::kDouble).mul_(2.0), 1);
}
ReferenceTop TopOf(const at::Tensor& log_probs, int64_t top, Rest rest) {
  const auto found = log_probs.topk(top, 1);
  return {std::get<1>(found), std::get<0>(found), rest};
}

TEST(TopDivergenceTest, EqualsPlainAutogradInFp64) {
  for (const Rest rest : {Rest::kBucket, Rest::kRenormalize, Rest::kZero}) {
    for (const Divergence& how : kEveryTop) {
      if (rest == Rest::kZero && how.kind == DivergenceKind::kReverse) continue;
      for (const int64_t top : {1, 4, 28}) {
        for (const int64_t chunk_rows : {1, 5, 1000}) {
          for (const double softcap : {0.0, 3.0}) {
            SCOPED_TRACE(::testing::Message()
                         << "rest " << static_cast<int>(rest) << " kind "
                         << static_cast<int>(how.kind) << " temperature " << how.temperature
                         << " top " << top << " rows " << chunk_rows << " softcap " << softcap);
            if (rest == Rest::kRenormalize && top == 1) continue;  // it is 0, see below
            const Case c{.scale = 0.5, .softcap = softcap, .bias = true, .chunk_rows = chunk_rows};
            const Inputs in = MakeInputs(c);
            const ReferenceTop reference = TopOf(ReferenceLogProbs(c), top, rest);
            // 1 - (sum of probabilities) loses digits if little remains: bound 1e-11.
            ExpectClose(
                Ours(c, in, AgainstTheTop(reference, in.targets, how), OptionsOf(c)),
                Plain(c, in,
                      [&](const at::Tensor& z) { return PlainTopDivergence(how, z, reference); }),
                1e-11);
          }
        }
      }
    }
  }
}

TEST(TopDivergenceTest, OneRenormalisedIdIsCertain) {
  const Case c;
  const Inputs in = MakeInputs(c);
  const ReferenceTop one = TopOf(ReferenceLogProbs(c), 1, Rest::kRenormalize);
  const Result ours = Ours(c, in, AgainstTheTop(one, in.targets, {}), OptionsOf(c));
  EXPECT_TRUE(ours.values.eq(0).all().item<bool>());
  EXPECT_TRUE(ours.weight_gradient.eq(0).all().item<bool>());
}

// With all ids, the result is the divergence over the whole vocabulary. With fewer ids and a bucket
// for the rest, it is a lower bound, which increases with the number of ids.
TEST(TopDivergenceTest, OfMoreAndMoreIds) {
  const Case c{.ignored = 0.0};
  const Inputs in = MakeInputs(c);
  const auto head = std::make_shared<Parameter>("lm_head.weight", in.weight);
  // A reference model whose logits are its hidden states.
  const at::Tensor log_probs = ReferenceLogProbs(c);
  const ReferenceHead whole{
      log_probs, std::make_shared<Parameter>("eye", at::eye(c.vocab, at::kDouble)), {}};
  for (const Divergence& how : {kEveryTop[0], kEveryTop[1], kEveryTop[2]}) {
    const at::Tensor all = TokenDivergence(in.hidden, head, in.targets, whole, how).detach();
    const auto of = [&](int64_t top, Rest rest) {
      return TokenDivergence(in.hidden, head, in.targets, TopOf(log_probs, top, rest), how)
          .detach();
    };
    EXPECT_LE(Distance(of(c.vocab, Rest::kRenormalize), all), 1e-13);
    EXPECT_LE(Distance(of(c.vocab - 1, Rest::kBucket), all), 1e-13);
    at::Tensor before = at::zeros_like(all);
    for (const int64_t top : {1, 2, 4, 8, 16}) {
      const at::Tensor bound = of(top, Rest::kBucket);
      EXPECT_TRUE((bound >= before - 1e-12).all().item<bool>());
      EXPECT_TRUE((bound <= all + 1e-12).all().item<bool>());
      before = bound;
    }
  }
}

// In fp32 the probabilities of the top ids may sum to 1 or more: the remaining mass is then 2^-23,
// and everything stays finite.
TEST(TopDivergenceTest, NothingLeftOfTheMass) {
  const Case c{.ignored = 0.0, .dtype = at::kFloat};
  const Inputs in = MakeInputs(c);
  const at::Tensor ids = at::tensor({3L, 8L}).expand({c.tokens, 2}),
                   log_probs = at::tensor({0.0, -18.0}).to(at::kFloat).expand({c.tokens, 2});
  for (const Divergence& how : kEveryTop) {
    const Result ours =
        Ours(c, in, AgainstTheTop({ids, log_probs, Rest::kBucket}, in.targets, how), OptionsOf(c));
    const Result wanted = Plain(c, InFp64(in), [&](const at::Tensor& z) {
      const double open = std::exp2(-23.0), sum = 1.0 + std::exp(-18.0) + open;
      const at::Tensor exact = at::tensor({0.0, -18.0}).to(at::kDouble).sub_(std::log(sum));
      const ReferenceTop top{ids, exact.expand({c.tokens, 2}), Rest::kBucket};
      return PlainTopDivergence(how, z, top);
    });
    ExpectClose(ours, wanted, 1e-5);
  }
}

// Rows with fewer than K ids may be padded with -inf.
TEST(TopDivergenceTest, IdsWithoutMass) {
  const Case c;
  const Inputs in = MakeInputs(c);
  for (const Rest rest : {Rest::kBucket, Rest::kRenormalize, Rest::kZero}) {
    for (const Divergence& how : {kEveryTop[0], kEveryTop[2]}) {
      ReferenceTop four = TopOf(ReferenceLogProbs(c), 4, rest);
      four.log_probs_TK.slice(1, 2).fill_(-kInfinite);
      ExpectClose(
          Ours(c, in, AgainstTheTop(four, in.targets, how), OptionsOf(c)),
          Plain(c, in, [&](const at::Tensor& z) { return PlainTopDivergence(how, z, four); }),
          1e-12);
    }
  }
}

// Gradients of a tied embedding add up; a frozen head gets none.
TEST(TopDivergenceTest, TiedAndFrozenHeads) {
  const Case c{.chunk_rows = 6};
  const Inputs in = MakeInputs(c);
  const ReferenceTop reference = TopOf(ReferenceLogProbs(c), 4, Rest::kBucket);
  const Result plain =
      Plain(c, in, [&](const at::Tensor& z) { return PlainTopDivergence({}, z, reference); });
  for (const bool trainable : {true, false}) {
    const auto head = std::make_shared<Parameter>("embed.weight", in.weight.clone(), trainable);
    if (trainable) head->AddGradient(at::ones_like(in.weight));
    at::Tensor hidden = in.hidden.clone().requires_grad_();
    (TokenDivergence(hidden, head, in.targets, reference, {}, OptionsOf(c)) * in.upstream)
        .sum()
        .backward();
    EXPECT_LE(Distance(hidden.grad(), plain.hidden_gradient), 1e-12);
    EXPECT_EQ(head->gradient().defined(), trainable);
    if (trainable) {
      EXPECT_LE(Distance(head->gradient(), plain.weight_gradient + 1.0), 1e-12);
    }
  }
}

TEST(TopDivergenceTest, TopLogProbsAreOfWholeRows) {
  for (const int64_t chunk_rows : {1, 5, 1000}) {
    const Case c{.scale = 0.5, .softcap = 4.0, .chunk_rows = chunk_rows};
    const Inputs in = MakeInputs(c);
    const TopLogProbs top =
        TokenTopLogProbs(in.hidden, Parameter("head", in.weight), in.targets, 6, 2.0, OptionsOf(c));
    const at::Tensor z = PlainLogits(c, in.hidden, in.weight, in.bias);
    const auto wanted = at::log_softmax(z / 2.0, 1).topk(6, 1);
    const at::Tensor learnt = in.targets.ne(-100).unsqueeze(1);
    EXPECT_TRUE(at::equal(top.ids_TK, at::where(learnt, std::get<1>(wanted), -1)));
    EXPECT_LE(Distance(top.log_probs_TK.exp(), std::get<0>(wanted).exp() * learnt), 1e-14);
    // The result can be used as the reference of a divergence, also in rows without a target.
    const ReferenceTop reference{top.ids_TK, top.log_probs_TK, Rest::kBucket};
    EXPECT_LE(TokenDivergence(in.hidden, std::make_shared<Parameter>("head", in.weight), in.targets,
                              reference, {.temperature = 2.0}, OptionsOf(c))
                  .abs()
                  .max()
                  .item<double>(),
              1e-13);
  }
  const Case none{.tokens = 0};
  const Inputs in = MakeInputs(none);
  EXPECT_EQ(TokenTopLogProbs(in.hidden, Parameter("head", in.weight), in.targets, 3).ids_TK.sizes(),
            at::IntArrayRef({0, 3}));
  ExpectRefused([&] { TokenTopLogProbs(in.hidden, Parameter("head", in.weight), in.targets, 30); },
                "objectives.top_log_probs: 30 ids of each row, expected 1 to the vocabulary's 29");
}

TEST(TopDivergenceTest, NoTargetsAndNoTokens) {
  for (const int64_t tokens : {0, 5}) {
    const Case c{.tokens = tokens, .ignored = 2.0};
    const Inputs in = MakeInputs(c);
    const Result ours =
        Ours(c, in, AgainstTheTop(TopOf(ReferenceLogProbs(c), 4, Rest::kBucket), in.targets, {}),
             OptionsOf(c));
    EXPECT_EQ(ours.values.numel(), tokens);
    for (const at::Tensor& each : {ours.values, ours.hidden_gradient, ours.weight_gradient})
      EXPECT_TRUE(each.eq(0).all().item<bool>());
  }
}

TEST(TopDivergenceTest, WrongCalls) {
  const Case c{.ignored = 0.0};
  const Inputs in = MakeInputs(c);
  const auto head = std::make_shared<Parameter>("lm_head.weight", in.weight);
  const ReferenceTop good = TopOf(ReferenceLogProbs(c), 4, Rest::kBucket);
  const auto refused = [&](const ReferenceTop& top, const char* words, const Divergence& how = {}) {
    ExpectRefused([&] { TokenDivergence(in.hidden, head, in.targets, top, how); }, words);
  };
  const at::Tensor ids = good.ids_TK, log_probs = good.log_probs_TK;
  refused({{}, log_probs}, "the reference needs ids and log-probs");
  refused({ids.to(at::kInt), log_probs}, "ids of shape [37, 4] of Int, expected int64 [37, K]");
  refused({ids, log_probs.narrow(1, 0, 3)},
          "log_probs of shape [37, 3] of Double, expected floating [37, 4] as the ids");
  refused({ids + 20, log_probs}, "an id of the reference is ");
  refused({ids - 29, log_probs}, "an id of the reference is -");
  refused({at::zeros_like(ids), log_probs}, "an id of the reference occurs twice in one row");
  refused({ids, log_probs * NAN}, "a log-prob of the reference is NaN or infinite");
  refused({ids, log_probs - kInfinite}, "all log-probs of a row of the reference are -inf");
  refused({ids, log_probs + 3.0}, "expected 1 at most: with the rest in a bucket they must be");
  at::Tensor some = log_probs.clone();
  some.select(1, 3).fill_(-kInfinite);
  refused({ids, some}, "reverse is infinite where the reference's log-prob of an id is -inf",
          {.kind = DivergenceKind::kReverse});
  refused({ids, log_probs, Rest::kZero}, "expected another rest than zero",
          {.kind = DivergenceKind::kReverse});
  refused(TopOf(ReferenceLogProbs(c), 29, Rest::kBucket), "29 ids of 29 leave no rest");
}

}  // namespace
}  // namespace moonring::objectives::testing
