// Whole computations from logits to loss, compared with other libraries' trainers
// (tests/golden/objectives/make.py).

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/autograd/parameter.h"
#include "comm/layout.h"
#include "comm/sequence.h"
#include "nlohmann/json.hpp"
#include "objectives/documents.h"
#include "objectives/kto.h"
#include "objectives/log_prob.h"
#include "objectives/preference.h"
#include "objectives/reward.h"
#include "objectives/sft.h"
#include "objectives/vocabulary/divergence.h"
#include "tests/testing/all_close.h"

namespace moonring::objectives {
namespace {

using moonring::testing::RelativeError;
using nlohmann::json;

const json& Peers() {
  static const json& peers =
      *new json(json::parse(std::ifstream("tests/golden/objectives/peers.json")));
  return peers;
}

at::Tensor Rows(const json& rows) {
  const auto numbers = rows.get<std::vector<std::vector<double>>>();
  std::vector<at::Tensor> tensors;
  for (const auto& row : numbers) tensors.push_back(at::tensor(row, at::kDouble));
  return at::stack(tensors);
}

// The first n documents of a set in the golden file, as a packed stream. The head is the identity,
// so the hidden states are the logits.
struct Packed {
  comm::Sequence sequence;
  at::Tensor policy_TV, reference_TV;
};

Packed Pack(const json& set, int64_t n) {
  Packed packed;
  std::vector<at::Tensor> labels, policy, reference;
  for (int64_t d = 0; d < n; ++d) {
    labels.push_back(at::tensor(set["labels"][d].get<std::vector<int64_t>>(), at::kLong));
    policy.push_back(Rows(set["policy"][d]));
    reference.push_back(Rows(set["reference"][d]));
    packed.sequence.lengths.push_back(labels.back().size(0));
  }
  packed.sequence.targets_T = comm::ShiftLabels(at::cat(labels), packed.sequence.lengths);
  packed.policy_TV = at::cat(policy).requires_grad_();
  packed.reference_TV = at::cat(reference);
  return packed;
}

at::Tensor LogProbSums(const Packed& packed, const at::Tensor& logits_TV,
                       const at::Tensor& weights_T = {}) {
  const auto head = std::make_shared<base::Parameter>(
      "head", at::eye(logits_TV.size(1), at::kDouble), /*trainable=*/false);
  at::Tensor log_prob_T = TokenLogProb(logits_TV, head, packed.sequence.targets_T);
  if (weights_T.defined()) log_prob_T = log_prob_T * weights_T;
  return DocumentSums(log_prob_T, **comm::Layout::Create(packed.sequence.lengths, {}),
                      comm::Communicator::Alone());
}

at::Tensor Gradient(const json& golden) {
  std::vector<at::Tensor> documents;
  for (const json& document : golden["gradient"]) documents.push_back(Rows(document));
  return at::cat(documents);
}

void ExpectPeerMetrics(const Metrics& ours, const json& golden, double bound) {
  for (const auto& [name, wanted] : golden.items()) {
    ASSERT_TRUE(ours.contains(name)) << name;
    EXPECT_NEAR(ours.at(name).sum / ours.at(name).count, wanted.get<double>(),
                bound * (1 + std::abs(wanted.get<double>())))
        << name;
  }
}

TEST(PeersTest, Preference) {
  for (const json& golden : Peers()["preference"]) {
    SCOPED_TRACE(golden["loss"].get<std::string>() + " " + golden["options"].dump());
    const json& o = golden["options"];
    const auto preference = *Preference::Create({.loss = golden["loss"],
                                                 .beta = o.value("beta", 0.1),
                                                 .ftx = o.value("ftx", 0.0),
                                                 .simpo_gamma = o.value("simpo_gamma", 0.5),
                                                 .label_smoothing = o.value("label_smoothing", 0.0),
                                                 .bco_weight = o.value("bco_weight", 0.0)});
    const Packed packed = Pack(Peers()["pairs"], 6);
    const at::Tensor weights =
        o.contains("ld_alpha") ? Desensitized(packed.sequence, o["ld_alpha"]) : at::Tensor();
    const at::Tensor policy = LogProbSums(packed, packed.policy_TV, weights),
                     reference = LogProbSums(packed, packed.reference_TV);
    const at::Tensor targets = DocumentTargets(packed.sequence);
    if (preference->needs_survey()) preference->Survey(policy, reference, targets, 3);
    const auto sums = preference->Loss({policy, reference, targets, {}, {0, 1, 2}});
    (sums.loss / 3).backward();
    // Both compute in fp64, except for TRL's running mean and accuracies.
    const double bound = o.contains("bco_weight") ? 1e-6 : 1e-12;
    EXPECT_NEAR(sums.loss.item<double>() / 3, golden["value"].get<double>(), bound);
    EXPECT_TRUE(RelativeError(packed.policy_TV.grad(), Gradient(golden), bound));
    ExpectPeerMetrics(sums.metrics, golden["metrics"], 1e-7);
  }
}

TEST(PeersTest, Kto) {
  for (const json& golden : Peers()["kto"]) {
    const json& o = golden["options"];
    SCOPED_TRACE(o.dump());
    const auto kto = *Kto::Create({.beta = o.value("beta", 0.1),
                                   .chosen_weight = o.value("chosen_weight", 1.0),
                                   .rejected_weight = o.value("rejected_weight", 1.0),
                                   .ftx = o.value("ftx", 0.0)});
    const int64_t n = golden["examples"];
    const Packed packed = Pack(Peers()["pairs"], n), other = Pack(Peers()["mismatched"], n);
    at::Tensor other_policy = LogProbSums(other, other.policy_TV),
               other_reference = LogProbSums(other, other.reference_TV);
    if (golden.contains("swapped")) std::swap(other_policy, other_reference);
    Metrics metrics = kto->Survey(other_policy, other_reference, n);
    std::vector<int64_t> places(n);
    for (int64_t i = 0; i < n; ++i) places[i] = i;
    const auto sums = kto->Loss({LogProbSums(packed, packed.policy_TV),
                                 LogProbSums(packed, packed.reference_TV),
                                 DocumentTargets(packed.sequence),
                                 {},
                                 golden["desirable"].get<std::vector<bool>>(),
                                 places});
    (sums.loss / static_cast<double>(n)).backward();
    EXPECT_NEAR(sums.loss.item<double>() / static_cast<double>(n), golden["value"].get<double>(),
                1e-12);
    EXPECT_TRUE(RelativeError(packed.policy_TV.grad(), Gradient(golden), 1e-12));
    metrics.insert(sums.metrics.begin(), sums.metrics.end());
    ExpectPeerMetrics(metrics, golden["metrics"], 1e-12);
  }
}

// Reward model: LLaMA-Factory casts the scores to fp32.
TEST(PeersTest, Reward) {
  const json& golden = Peers()["reward"];
  std::vector<int64_t> lengths;
  std::vector<double> values, gradient;
  for (size_t d = 0; d < golden["values"].size(); ++d) {
    const auto of_document = golden["values"][d].get<std::vector<double>>(),
               its_gradient = golden["gradient"][d].get<std::vector<double>>();
    lengths.push_back(static_cast<int64_t>(of_document.size()));
    values.insert(values.end(), of_document.begin(), of_document.end());
    gradient.insert(gradient.end(), its_gradient.begin(), its_gradient.end());
  }
  at::Tensor hidden = at::tensor(values, at::kDouble).unsqueeze(1).requires_grad_();
  const auto weight = std::make_shared<base::Parameter>("v", at::ones({1, 1}, at::kDouble)),
             bias = std::make_shared<base::Parameter>("b", at::zeros({1}, at::kDouble));
  const at::Tensor scores = DocumentScores(
      hidden, weight, bias, **comm::Layout::Create(lengths, {}), comm::Communicator::Alone());
  const auto sums = RewardLoss(scores);
  (sums.loss / 3).backward();
  EXPECT_NEAR(sums.loss.item<double>() / 3, golden["value"].get<double>(), 1e-6);
  EXPECT_TRUE(RelativeError(hidden.grad().squeeze(1), at::tensor(gradient, at::kDouble), 1e-6));
}

// SFT: LLaMA-Factory computes in fp32.
TEST(PeersTest, Sft) {
  const json& golden = Peers()["sft"];
  const auto labels = at::tensor(golden["labels"].get<std::vector<int64_t>>(), at::kLong);
  const at::Tensor targets = comm::ShiftLabels(labels, {labels.size(0)});
  const double count = golden["count"];
  for (const auto& [name, wanted] : golden["cases"].items()) {
    SCOPED_TRACE(name);
    at::Tensor logits = Rows(golden["logits"]).requires_grad_();
    const auto head = std::make_shared<base::Parameter>(
        "head", at::eye(logits.size(1), at::kDouble), /*trainable=*/false);
    LogProbOptions options;
    if (name == "label_smoothing") options.label_smoothing = golden["epsilon"];
    const LogProbs result = TokenLogProb(logits, head, targets, options, {.top_entropy = true});
    SftOptions sft;
    if (name == "dft") sft.weight = SftOptions::Weight::kDft;
    if (name.rfind("eaft", 0) == 0) sft.weight = SftOptions::Weight::kEaft;
    if (name == "eaft_half") sft.eaft_alpha = 0.5;
    const auto sums =
        Sft(sft).Loss(result.log_prob_T, targets, {}, result.statistics.top_entropy_T);
    (sums.loss / count).backward();
    EXPECT_NEAR(sums.loss.item<double>() / count, wanted["value"].get<double>(),
                1e-6 * wanted["value"].get<double>());
    EXPECT_TRUE(RelativeError(logits.grad(), Rows(wanted["gradient"]), 1e-6));
  }
}

// ASFT, in fp64 on both sides: the sum of DFT's loss and asft_alpha times the forward KL, divided
// by the number of predictions.
TEST(PeersTest, Asft) {
  const json& golden = Peers()["asft"];
  const auto labels = at::tensor(golden["labels"].get<std::vector<int64_t>>(), at::kLong);
  const at::Tensor targets = comm::ShiftLabels(labels, {labels.size(0)});
  const int64_t count =
      Sft({.count = SftOptions::CountBy::kTargets}).Count(labels, {labels.size(0)});
  ASSERT_EQ(count, 7);
  for (const json& wanted : golden["cases"]) {
    SCOPED_TRACE(wanted["alpha"].dump());
    at::Tensor logits = Rows(golden["logits"]).requires_grad_();
    const auto head = std::make_shared<base::Parameter>(
        "head", at::eye(logits.size(1), at::kDouble), /*trainable=*/false);
    const auto dft = Sft({.weight = SftOptions::Weight::kDft})
                         .Loss(TokenLogProb(logits, head, targets), targets);
    const at::Tensor divergence = TokenDivergence(
        logits, head, targets, {.hidden_TD = Rows(golden["reference"]), .head_VD = head}, {});
    const at::Tensor loss =
        (dft.loss + divergence.sum() * wanted["alpha"].get<double>()) / static_cast<double>(count);
    loss.backward();
    EXPECT_NEAR(loss.item<double>(), wanted["value"].get<double>(), 1e-12);
    EXPECT_TRUE(RelativeError(logits.grad(), Rows(wanted["gradient"]), 1e-12));
  }
}

}  // namespace
}  // namespace moonring::objectives
