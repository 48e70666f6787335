#include "objectives/documents.h"

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/autograd/parameter.h"
#include "comm/layout.h"
#include "comm/process_groups.h"
#include "comm/sequence.h"
#include "objectives/kto.h"
#include "objectives/log_prob.h"
#include "objectives/preference.h"
#include "objectives/reward.h"
#include "objectives/sft.h"
#include "tests/testing/all_close.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::objectives {
namespace {

using comm::Division;
using comm::Ownership;
using moonring::testing::RelativeError;
using moonring::testing::RunRanks;

constexpr int64_t kHidden = 5, kVocab = 11;
constexpr int64_t kNone = comm::kIgnore;

at::Tensor Numbers(const std::vector<double>& numbers) { return at::tensor(numbers, at::kDouble); }

std::shared_ptr<base::Parameter> ParameterOf(const at::Tensor& weight, bool trainable = true) {
  return std::make_shared<base::Parameter>("weight", weight, trainable);
}

comm::Sequence SequenceOf(const std::vector<std::vector<int64_t>>& labels) {
  comm::Sequence sequence;
  std::vector<int64_t> all;
  for (const auto& document : labels) {
    sequence.lengths.push_back(static_cast<int64_t>(document.size()));
    all.insert(all.end(), document.begin(), document.end());
  }
  sequence.ids_T = at::tensor(all, at::kLong).clamp_min(0);
  sequence.positions_T = comm::PositionsInDocuments(sequence.lengths);
  sequence.targets_T = comm::ShiftLabels(at::tensor(all, at::kLong), sequence.lengths);
  return sequence;
}

TEST(DocumentsTest, TargetsOfEach) {
  const comm::Sequence sequence = SequenceOf({{kNone, 1, 2}, {}, {3, 4}, {5}, {kNone, kNone, 6}});
  EXPECT_TRUE(at::equal(DocumentTargets(sequence), Numbers({2.0, 0.0, 1.0, 0.0, 1.0})));
  EXPECT_EQ(DocumentTargets(SequenceOf({})).numel(), 0);
}

TEST(DocumentsTest, DesensitizedBeyondTheShorterAnswer) {
  // The pairs' documents have 1 and 3, 2 and 2, and 0 and 1 predictions. A token's weight applies
  // to the prediction that it makes.
  const comm::Sequence sequence = SequenceOf({{kNone, kNone, 1},
                                              {kNone, 1, 2, 3},
                                              {0, 1, 2},
                                              {kNone, kNone, 3, 4},
                                              {kNone, kNone},
                                              {kNone, kNone, 5}});
  const at::Tensor wanted = Numbers({1., 1., 1., /**/ 1., .25, .25, 1., /**/ 1., 1., 1., /**/ 1.,
                                     1., 1., 1., /**/ 1., 1., /**/ 1., .25, 1.});
  EXPECT_TRUE(at::equal(Desensitized(sequence, 0.25), wanted)) << Desensitized(sequence, 0.25);
  EXPECT_TRUE(Desensitized(sequence, 1.0).eq(1).all().item<bool>());
  EXPECT_THROW(Desensitized(SequenceOf({{1}}), 0.5), c10::Error);
  EXPECT_THROW(Desensitized(sequence, 1.5), c10::Error);
  // A shared prefix before or between the answers of the first pair is not a member of a pair.
  for (const int64_t place : {0, 1}) {
    std::vector<std::vector<int64_t>> documents = {{kNone, 1}, {kNone, 1, 2, 3}, {0, 1}, {2, 1}};
    documents.insert(documents.begin() + place, {kNone, kNone, kNone});
    comm::Sequence shared = SequenceOf(documents);
    shared.parents.assign(5, {});
    shared.parents[1 - place] = shared.parents[2] = {place, 3};
    ASSERT_OK(comm::Validate(shared));
    std::vector<at::Tensor> rows = {Numbers({1., 1.}), Numbers({1., .25, .25, 1.}),
                                    Numbers({1., 1., 1., 1.})};
    rows.insert(rows.begin() + place, Numbers({1., 1., 1.}));
    EXPECT_TRUE(at::equal(Desensitized(shared, 0.25), at::cat(rows))) << Desensitized(shared, 0.25);
  }
}

// The data before they are split over ranks: documents that are split over several ranks, and short
// ones.
struct Batch {
  comm::Sequence sequence;
  at::Tensor hidden_TD, head_VD, reference, value_D, identity_T;
};

Batch MakeBatch(const std::vector<int64_t>& lengths) {
  auto generator = at::detail::createCPUGenerator(11);
  const auto normal = [&](at::IntArrayRef sizes) {
    return at::randn(sizes, generator, at::kDouble);
  };
  std::vector<std::vector<int64_t>> labels;
  for (const int64_t length : lengths) {
    std::vector<int64_t> document(length);
    for (int64_t t = 0; t < length; ++t)
      document[t] = 3 * t < length ? kNone : (7 * t + length) % kVocab;  // 1/3 is prompt
    labels.push_back(document);
  }
  Batch batch{SequenceOf(labels), {}, normal({kVocab, kHidden}), {}, normal({1, kHidden}), {}};
  const int64_t tokens = batch.sequence.ids_T.size(0);
  batch.hidden_TD = normal({tokens, kHidden});
  batch.reference =
      DocumentTargets(batch.sequence) * -2.5 + normal({static_cast<int64_t>(lengths.size())});
  batch.identity_T = at::arange(tokens, at::kLong) * 1000;
  return batch;
}

// Computes one objective for the batch on one rank, and returns the loss that it reports.
using Objective = std::function<at::Tensor(
    const Batch&, const comm::Layout&, const std::shared_ptr<comm::Communicator>&,
    const at::Tensor& hidden, const std::shared_ptr<base::Parameter>& head,
    const std::shared_ptr<base::Parameter>& value, const std::shared_ptr<base::Parameter>& bias)>;

at::Tensor LogProb(const Batch& batch, const comm::Layout& layout, int rank,
                   const at::Tensor& hidden, const std::shared_ptr<base::Parameter>& head) {
  return TokenLogProb(hidden, head, layout.Cut(batch.sequence.targets_T, rank));
}

std::vector<int64_t> Places(int64_t n) {
  std::vector<int64_t> places(n);
  for (int64_t i = 0; i < n; ++i) places[i] = n - 1 - i;
  return places;
}

std::map<std::string, std::pair<bool, Objective>>
Objectives() {  // by name: whether its sums are sharded, and the objective
  std::map<std::string, std::pair<bool, Objective>> all;
  for (const PreferenceLoss& loss : PreferenceLosses()) {
    all[loss.name] = {
        false, [&loss](const Batch& batch, const comm::Layout& layout, const auto& group,
                       const at::Tensor& hidden, const auto& head, const auto&, const auto&) {
          const auto preference =
              *Preference::Create({.loss = loss.name,
                                   .beta = 0.3,
                                   .ftx = 0.2,
                                   .bco_weight = loss.needs_reference ? 0.4 : 0.0});
          const at::Tensor targets = DocumentTargets(batch.sequence);
          const at::Tensor weights = layout.Cut(Desensitized(batch.sequence, 0.5), group->rank());
          const at::Tensor policy = DocumentSums(
              LogProb(batch, layout, group->rank(), hidden, head) * weights, layout, group);
          const int64_t pairs = targets.size(0) / 2;
          const auto reversed = [&](const at::Tensor& t) {
            return t.view({-1, 2}).flip({0}).reshape({-1});
          };  // `places` in reverse order
          if (preference->needs_survey())
            preference->Survey(reversed(policy.detach()), reversed(batch.reference),
                               reversed(targets), 2);
          return preference->Loss({policy, batch.reference, targets, {}, Places(pairs)}).loss;
        }};
  }
  all["kto"] = {false, [](const Batch& batch, const comm::Layout& layout, const auto& group,
                          const at::Tensor& hidden, const auto& head, const auto&, const auto&) {
                  const auto kto = *Kto::Create({.beta = 0.3, .chosen_weight = 1.5, .ftx = 0.2});
                  const at::Tensor policy = DocumentSums(
                      LogProb(batch, layout, group->rank(), hidden, head), layout, group);
                  const int64_t n = policy.size(0);
                  kto->Survey(batch.reference * 1.1, batch.reference * 1.2, 3);
                  std::vector<bool> desirable(n);
                  for (int64_t i = 0; i < n; ++i) desirable[i] = i % 3 == 0;
                  return kto
                      ->Loss({policy,
                              batch.reference,
                              DocumentTargets(batch.sequence),
                              {},
                              desirable,
                              Places(n)})
                      .loss;
                }};
  all["vectors"] = {false, [](const Batch&, const comm::Layout& layout, const auto& group,
                              const at::Tensor& hidden, const auto&, const auto&, const auto&) {
                      const at::Tensor sums = DocumentSums(hidden, layout, group);
                      return sums.mm(sums.t()).sigmoid().sum();
                    }};
  for (const double dropout : {0.0, 0.4}) {
    all[dropout == 0.0 ? "reward" : "reward, dropout"] = {
        false,
        [dropout](const Batch& batch, const comm::Layout& layout, const auto& group,
                  const at::Tensor& hidden, const auto&, const auto& value, const auto& bias) {
          const ScoreDropout drop{dropout, 7, 3, layout.Cut(batch.identity_T, group->rank())};
          const at::Tensor scores = DocumentScores(hidden, value, bias, layout, group, drop);
          return RewardLoss(scores).loss +
                 0.1 * scores.square().sum();  // in the loss alone, the bias would cancel
        }};
  }
  all["sft"] = {true, [](const Batch& batch, const comm::Layout& layout, const auto& group,
                         const at::Tensor& hidden, const auto& head, const auto&, const auto&) {
                  return Sft({.weight = SftOptions::Weight::kDft})
                      .Loss(LogProb(batch, layout, group->rank(), hidden, head),
                            layout.Cut(batch.sequence.targets_T, group->rank()))
                      .loss;
                }};
  return all;
}

struct DocumentsResult {
  double loss = 0;
  at::Tensor hidden_gradient, head_gradient, value_gradient, bias_gradient;
};

// Returns the results of every objective, by name.
std::map<std::string, DocumentsResult> RunAll(const Batch& batch, int ranks,
                                              const Division& division) {
  const auto layout = *comm::Layout::Create(batch.sequence.lengths, division);
  std::map<std::string, std::vector<at::Tensor>> hidden_gradients;
  std::map<std::string, DocumentsResult> results;
  for (const auto& [name, each] : Objectives()) hidden_gradients[name].resize(ranks);
  std::mutex mutex;
  RunRanks(ranks, [&](std::shared_ptr<comm::World> world) {
    const auto group = world->communicator();
    const int rank = group->rank();
    for (const auto& [name, each] : Objectives()) {
      at::Tensor hidden = layout->Cut(batch.hidden_TD, rank).clone().requires_grad_();
      const auto head = ParameterOf(batch.head_VD.clone()),
                 value = ParameterOf(batch.value_D.clone()),
                 bias = ParameterOf(at::full({1}, 0.3, at::kDouble));
      const at::Tensor loss = each.second(batch, *layout, group, hidden, head, value, bias);
      loss.backward();
      const std::lock_guard<std::mutex> lock(mutex);
      DocumentsResult& result = results[name];
      hidden_gradients[name][rank] =
          hidden.grad().defined() ? hidden.grad() : at::zeros_like(hidden);
      if (each.first || rank == 0) result.loss += loss.item<double>();
      const auto add = [](at::Tensor& total,
                          const base::Parameter& one) {  // gradients are summed over ranks
        const at::Tensor gradient =
            one.gradient().defined() ? one.gradient() : at::zeros_like(one.weight());
        total = total.defined() ? total + gradient : gradient;
      };
      add(result.head_gradient, *head);
      add(result.value_gradient, *value);
      add(result.bias_gradient, *bias);
    }
  });
  for (auto& [name, result] : results)
    result.hidden_gradient = layout->Join(hidden_gradients[name]);
  return results;
}

// Values and gradients equal those of one rank for every layout: documents split over ranks, whole
// documents, an empty one, and ranks without rows.
TEST(DocumentsTest, RanksAndLayoutsDoNotMatter) {
  const std::vector<std::vector<int64_t>> shapes = {
      {300, 130, 3, 70, 1, 90}, {260, 5}, {4, 3}, {0, 66, 129, 2}, {}};
  for (const std::vector<int64_t>& lengths : shapes) {
    const Batch batch = MakeBatch(lengths);
    const std::map<std::string, DocumentsResult> one = RunAll(batch, 1, {});
    ASSERT_EQ(one.size(), PreferenceLosses().size() + 5);
    for (const int ranks : {2, 4}) {
      for (const Ownership ownership :
           {Ownership::kContiguous, Ownership::kZigzag, Ownership::kWholeDocuments}) {
        for (const auto& [name, many] :
             RunAll(batch, ranks, {.contexts = ranks, .ownership = ownership})) {
          SCOPED_TRACE(::testing::Message()
                       << name << ", " << lengths.size() << " documents over " << ranks
                       << " ranks, " << comm::OwnershipName(ownership));
          const DocumentsResult& wanted = one.at(name);
          ASSERT_TRUE(std::isfinite(wanted.loss));
          EXPECT_NEAR(many.loss, wanted.loss, 1e-12 * std::abs(wanted.loss));
          EXPECT_TRUE(RelativeError(many.hidden_gradient, wanted.hidden_gradient, 1e-12));
          EXPECT_TRUE(RelativeError(many.head_gradient, wanted.head_gradient, 1e-12));
          EXPECT_TRUE(RelativeError(many.value_gradient, wanted.value_gradient, 1e-12));
          EXPECT_TRUE(RelativeError(many.bias_gradient, wanted.bias_gradient, 1e-12));
        }
      }
    }
  }
}

TEST(DocumentsTest, SumsInFp64AndRefusals) {
  const auto layout = *comm::Layout::Create({1 << 16, 0, 2}, {});
  const auto alone = comm::Communicator::Alone();
  at::Tensor values = at::full({(1 << 16) + 2}, -0.1f).requires_grad_();
  const at::Tensor sums = DocumentSums(values, *layout, alone);
  EXPECT_NEAR(sums[0].item<double>(), static_cast<double>(-0.1f) * (1 << 16),
              1e-9);  // in fp32 the error would be far larger
  EXPECT_EQ(sums[1].item<double>(), 0.0);
  sums.select(0, 2).backward();
  EXPECT_EQ(values.grad().sum().item<float>(), 2.0f);
  EXPECT_THROW(DocumentSums(values.slice(0, 1), *layout, alone), c10::Error);
  EXPECT_THROW(DocumentSums(values.to(at::kLong), *layout, alone), c10::Error);
  EXPECT_THROW(
      DocumentSums(values, **comm::Layout::Create({1 << 16, 0, 2}, {.contexts = 2}), alone),
      c10::Error);
  EXPECT_EQ(DocumentSums(at::empty({0}), **comm::Layout::Create({}, {}), alone).numel(), 0);
}

// The sum of a column of vectors equals the sums of its components, and so does its gradient.
TEST(DocumentsTest, VectorsAreSummedByColumns) {
  const auto layout = *comm::Layout::Create({3, 0, 2}, {});
  const auto alone = comm::Communicator::Alone();
  at::Tensor values = at::arange(10, at::kDouble).view({5, 2}).requires_grad_();
  const at::Tensor sums = DocumentSums(values, *layout, alone);
  EXPECT_TRUE(sums.equal(Numbers({6.0, 9.0, 0.0, 0.0, 14.0, 16.0}).view({3, 2})));
  (sums * at::arange(6, at::kDouble).view({3, 2})).sum().backward();
  EXPECT_TRUE(values.grad().equal(
      Numbers({0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 4.0, 5.0, 4.0, 5.0}).view({5, 2})));
  EXPECT_TRUE(DocumentSums(at::empty({0, 4}), **comm::Layout::Create({}, {}), alone)
                  .sizes()
                  .equals({0, 4}));
  EXPECT_THROW(DocumentSums(at::ones({4, 2}), *layout, alone), c10::Error);
  EXPECT_THROW(DocumentSums(at::ones({}), *layout, alone), c10::Error);
}

TEST(RewardTest, ScoreOfTheLastToken) {
  const auto layout = *comm::Layout::Create({3, 0, 2}, {});
  const auto alone = comm::Communicator::Alone();
  const at::Tensor hidden = at::arange(10, at::kDouble).view({5, 2}).requires_grad_();
  const auto weight = ParameterOf(Numbers({2.0, -1.0}).unsqueeze(0)),
             bias = ParameterOf(Numbers({0.5}));
  const at::Tensor scores = DocumentScores(hidden, weight, bias, *layout, alone);
  EXPECT_TRUE(at::equal(scores, Numbers({2 * 4.0 - 5 + 0.5, 0.0, 2 * 8.0 - 9 + 0.5})));
  (scores[0] + 10 * scores[2]).backward();
  EXPECT_TRUE(at::equal(weight->gradient(), Numbers({4.0 + 80, 5.0 + 90}).unsqueeze(0)));
  EXPECT_EQ(bias->gradient().item<double>(), 11.0);
  EXPECT_TRUE(at::equal(hidden.grad(), Numbers({0, 0, 0, 0, 2, -1, 0, 0, 20, -10}).view({5, 2})));

  // A frozen head still gives the hidden states' gradient; hidden states that need no gradient
  // still give the head's.
  const auto frozen = ParameterOf(weight->weight().clone(), false),
             frozen_bias = ParameterOf(bias->weight().clone(), false);
  hidden.mutable_grad().zero_();
  DocumentScores(hidden, frozen, frozen_bias, *layout, alone).sum().backward();
  EXPECT_FALSE(frozen->gradient().defined() || frozen_bias->gradient().defined());
  EXPECT_EQ(hidden.grad().sum().item<double>(), 2.0);
  weight->ClearGradient();
  DocumentScores(hidden.detach().to(at::kFloat), weight, bias, *layout, alone).sum().backward();
  EXPECT_TRUE(at::equal(weight->gradient(), Numbers({12.0, 14.0}).unsqueeze(0)));
}

// Dropout keeps the mean. Its mask is the same for a token at any position, and changes with the
// step.
TEST(RewardTest, DropoutOfTokens) {
  constexpr int64_t kWidth = 4000;
  const auto layout = *comm::Layout::Create({1, 1}, {});
  const auto alone = comm::Communicator::Alone();
  const auto weight = ParameterOf(at::ones({1, kWidth}, at::kDouble)),
             bias = ParameterOf(at::zeros({1}, at::kDouble));
  const at::Tensor hidden = at::ones({2, kWidth}, at::kDouble);
  const auto scores = [&](double probability, uint64_t step, std::vector<int64_t> identity) {
    return DocumentScores(hidden, weight, bias, *layout, alone,
                          ScoreDropout{probability, 1, step, at::tensor(identity, at::kLong)});
  };
  const at::Tensor some = scores(0.25, 5, {8, 9});
  EXPECT_NEAR(some[0].item<double>() / kWidth, 1.0,
              0.05);  // standard deviation: sqrt(0.25 / 0.75 / 4000) = 0.009
  EXPECT_NE(some[0].item<double>(), some[1].item<double>());
  EXPECT_TRUE(RelativeError(scores(0.25, 5, {9, 8}), some.flip({0}), 1e-12));
  EXPECT_FALSE(at::equal(scores(0.25, 6, {8, 9}), some));
  EXPECT_TRUE(scores(0.0, 5, {8, 9}).eq(kWidth).all().item<bool>());
  EXPECT_THROW(scores(1.0, 5, {8, 9}), c10::Error);
  EXPECT_THROW(scores(0.5, 5, {8}), c10::Error);
}

TEST(RewardTest, LossOfPairs) {
  at::Tensor scores = Numbers({1.0, -0.5, 2.0, 2.0, -1.0, 3.0}).requires_grad_();
  const Sums sums = RewardLoss(scores);
  const auto loss = [](double margin) { return std::log1p(std::exp(-margin)); };
  EXPECT_NEAR(sums.loss.item<double>(), loss(1.5) + loss(0.0) + loss(-4.0), 1e-14);
  EXPECT_EQ(sums.metrics.at("accuracy").sum, 1.0);
  EXPECT_EQ(sums.metrics.at("accuracy").count, 3.0);
  sums.loss.backward();
  EXPECT_NEAR(scores.grad()[5].item<double>(), 1 / (1 + std::exp(-4.0)), 1e-15);
  at::Tensor none = at::empty({0}, at::kDouble).requires_grad_();
  RewardLoss(none).loss.backward();
  EXPECT_THROW(RewardLoss(scores.narrow(0, 0, 3)), c10::Error);
}

}  // namespace
}  // namespace moonring::objectives
