// Objectives called from scripts: arguments, results, and messages for wrong calls.

#include <memory>
#include <string>

#include <ATen/ATen.h>

#include "base/autograd/parameter.h"
#include "gtest/gtest.h"
#include "lua/binding/class.h"
#include "lua/binding/handles.h"
#include "lua/binding/stack.h"
#include "lua/binding/tensor.h"
#include "tests/lua/fixture.h"

namespace moonring::lua {
namespace {

class Objectives : public VmTest {
 protected:
  Objectives() {
    Define("leaf", Bind<[](at::Tensor tensor) { return tensor.clone().requires_grad_(true); }>);
    Define("gradient", Bind<[](at::Tensor tensor) { return tensor.grad(); }>);
    Define("weight", Bind<[](at::Tensor tensor) {
             return std::make_shared<base::Parameter>("weight", tensor.clone());
           }>);
    Define("head", Bind<[](at::Tensor tensor, double scale, double softcap) {
             return std::make_shared<Head>(
                 Head{std::make_shared<base::Parameter>("head", tensor.clone()), scale, softcap});
           }>);
    Define("weight_gradient",
           Bind<[](base::Parameter& parameter) { return parameter.gradient(); }>);
  }
  std::string Check(const std::string& text) {
    return Run(R"lua(
      local moonring = require "moonring"
      local objectives, tensor = moonring.objectives, moonring.tensor
      local function near(a, b) assert(math.abs(a - b) < 1e-12, a .. ", expected " .. b) end
      local function refused(words, f, ...)
        local done, text = pcall(f, ...)
        assert(not done and text:find(words, 1, true), done and "nothing was refused; expected: "
          .. words or text)
      end
    )lua" + text)
        .message;
  }
};

TEST_F(Objectives, PreferenceOverASurveyedStep) {
  EXPECT_EQ(Check(R"lua(
    local dpo = objectives.preference { beta = 0.5 }
    assert(dpo:needs_reference() and not dpo:needs_survey())
    local policy = leaf(tensor({ -1, -2, -3, -1 }, "fp64"))
    local batch = { policy = policy, reference = tensor({ -1, -2, -3, -1 }, "fp64"),
      targets = tensor({ 1, 2, 3, 1 }, "fp64"),
      mean_logits = tensor({ 2, 4, 6, 2 }, "fp64"), places = { 0, 1 } }
    local sum, metrics = dpo:loss(batch)
    near(sum:item(), 2 * math.log(2))
    sum:backward()
    near(gradient(policy):tolist()[1], -0.25)
    assert(metrics["logits/chosen"][1] == 8 and metrics["logits/chosen"][2] == 4)
    assert(metrics["rewards/accuracies"][1] == 0 and metrics["rewards/accuracies"][2] == 2)

    local orpo = objectives.preference { loss = "orpo" }
    assert(not orpo:needs_reference())
    batch.reference = nil
    assert(orpo:loss(batch) and select(2, orpo:loss(batch)).odds_ratio_loss[2] == 2)
    refused("sigmoid needs the reference's log-probs", dpo.loss, dpo, batch)
    refused("unknown loss 'hing' (did you mean 'hinge'?)", objectives.preference, { loss = "hing" })
    refused("beta is 0, expected more than 0", objectives.preference, { beta = 0 })
    refused("option 'policy': expected a Tensor, got table", dpo.loss, dpo, { policy = { 1, 2 } })

    local pair = objectives.preference { loss = "kto_pair", bco_weight = 0.5 }
    assert(pair:needs_survey())
    batch.reference = tensor({ -2, -2, -3, -2 }, "fp64")
    refused("the survey saw 0 examples", pair.loss, pair, batch)
    moonring.no_grad(pair.survey, pair, policy, batch.reference, batch.targets,
      2) -- as a step does it
    local state, before = pair:state(), pair:loss(batch):item()
    pair:survey(policy, batch.reference, batch.targets, 1)
    assert(pair:state() ~= state)
    pair:load_state(state)
    assert(pair:state() == state and before > 0)
    refused("a state requires mean_reward and groups", pair.load_state, pair, "?")
  )lua"),
            "");
}

TEST_F(Objectives, KtoOfDesirableAndOther) {
  EXPECT_EQ(Check(R"lua(
    local kto = objectives.kto { beta = 0.5, rejected_weight = 2 }
    local told = kto:survey(tensor({ -1, -2, -5 }, "fp64"), tensor({ -2, -2, -4 }, "fp64"), 2)
    assert(told.kl[1] == 0.5 and told.kl[2] == 2) -- of groups {1, 0} and {-1}
    local function sigmoid(x) return 1 / (1 + math.exp(-x)) end
    local sum, metrics = kto:loss { policy = tensor({ -1, -4 }, "fp64"),
      reference = tensor({ -2, -2 }, "fp64"), targets = tensor({ 1, 1 }, "fp64"),
      desirable = { true, false }, places = { 1, 2 } }
    near(sum:item(), 1 - sigmoid(0.5 * (1 - 0.5)) + 2 * (1 - sigmoid(0.5 * (0 + 2))))
    assert(metrics["rewards/chosen"][1] == 0.5 and metrics["rewards/rejected"][1] == -1
      and not metrics["logits/chosen"])
    refused("option 'desirable' is missing", kto.loss, kto,
      { policy = tensor { 1 }, reference = tensor { 1 }, targets = tensor { 1 } })
  )lua"),
            "");
}

TEST_F(Objectives, DocumentsScoresAndRewards) {
  EXPECT_EQ(Check(R"lua(
    local mesh = moonring.comm.mesh {}
    local sequence = moonring.comm.sequence { documents = { { 1, 2, 3 }, { 4, 5 } },
      labels = { { -100, 2, 3 }, { 4, 5 } } }
    local layout = moonring.attention.create { mesh = mesh }:layout(sequence)
    local targets = objectives.document_targets(sequence):tolist()
    assert(targets[1] == 2 and targets[2] == 1)
    local weights = objectives.desensitized(sequence, 0.5):tolist()
    assert(weights[1] == 1 and weights[2] == 0.5 and weights[4] == 1)
    local sums = objectives.document_sums(tensor { 1, 2, 3, 4, 5 }, layout, mesh):tolist()
    assert(sums[1] == 6 and sums[2] == 9)

    local hidden = leaf(tensor { { 1, 1 }, { 2, 2 }, { 3, 1 }, { 4, 4 }, { 1, 2 } })
    local head, bias = weight(tensor { { 1, 2 } }), weight(tensor { 0.5 })
    local scores = objectives.document_scores(hidden, head, bias, layout, mesh)
    assert(scores:tolist()[1] == 5.5 and scores:tolist()[2] == 5.5)
    local sum, metrics = objectives.reward_loss(scores)
    near(sum:item(), math.log(2))
    assert(metrics.accuracy[1] == 0 and metrics.accuracy[2] == 1)
    sum:backward()
    near(weight_gradient(head):tolist()[1][1], -1) -- half of (1, 2) - (3, 1)
    local noise = { seed = 1, step = 2, identity = tensor({ 0, 1, 2, 3, 4 }, "int64"),
      dropout = 0.5, neftune_alpha = 5 }
    local dropped = objectives.document_scores(hidden, head, bias, layout, mesh, noise):tolist()
    local again = objectives.document_scores(hidden, head, bias, layout, mesh, noise):tolist()
    assert(dropped[1] == again[1] and dropped[2] == again[2])
    noise.identity = nil
    refused("dropout requires the identity of each of 5 tokens", objectives.document_scores, hidden,
      head, bias, layout, mesh, noise)
  )lua"),
            "");
}

TEST_F(Objectives, StatisticsAndWeightsOfTokens) {
  EXPECT_EQ(Check(R"lua(
    local hidden, head, head_of = tensor { { 1, 0 }, { 0, 3 }, { 2, 2 } },
      head(tensor { { 1, 0 }, { 0, 1 } }, 1, 0), head
    local targets = tensor({ 1, -100, 0 }, "int64")
    local log_prob, nothing = objectives.log_prob(hidden, head, targets)
    assert(nothing == nil)
    local same, statistics = objectives.log_prob(hidden, head, targets,
      { statistics = { "greedy", "mean_logit" } })
    assert(same:tolist()[1] == log_prob:tolist()[1] and statistics.top_entropy == nil)
    assert(statistics.greedy:tolist()[1] == 0 and statistics.greedy:tolist()[2] == -1
      and statistics.mean_logit:tolist()[3] == 2)
    local sum, metrics = objectives.sft():loss(log_prob, targets, statistics)
    assert(metrics.token_accuracy[1] == 1 and metrics.token_accuracy[2] == 2
      and metrics.nll[1] == sum:item() and metrics.nll[2] == 2)
    assert(objectives.sft { dft = true }:loss(log_prob, targets):item() < sum:item())
    local smooth = objectives.log_prob(hidden, head, targets, { label_smoothing = 0.5 }):tolist()
    assert(smooth[1] > log_prob:tolist()[1] and smooth[2] == 0)
    refused("unknown 'gready' (did you mean 'greedy'?)", objectives.log_prob, hidden, head, targets,
      { statistics = { "gready" } })
    refused("eaft requires the top_entropy of [3] tokens", objectives.sft { eaft = true }.loss,
      objectives.sft { eaft = true }, log_prob, targets)
    refused("expected one of them", objectives.sft, { dft = true, eaft = true })
    refused("label_smoothing is 1, expected 0 to less than 1", objectives.log_prob, hidden, head,
      targets, { label_smoothing = 1 })

    -- A head's scale and cap are in the logits: of the last row 1.5 tanh(2 x 2 / 1.5), twice.
    local capped, cap = head_of(tensor { { 1, 0 }, { 0, 1 } }, 2, 1.5), 1.5 * math.tanh(4 / 1.5)
    local logits, logsumexp = objectives.logits(hidden, capped, 2)
    assert(math.abs(logits:tolist()[3][1] - cap) < 1e-6
      and math.abs(logsumexp:tolist()[3] - cap - math.log(2)) < 1e-6)
    local first = 1.5 * math.tanh(2 / 1.5)
    assert(math.abs(objectives.log_prob(hidden, capped, targets):tolist()[1] + math.log(
      1 + math.exp(first))) < 1e-6)
    assert(capped:scale() == 2 and capped:softcap() == 1.5 and tostring(capped) == "Head head"
      and capped:weight():name() == "head")
  )lua"),
            "");
}

TEST_F(Objectives, TemperatureAndEntropyOfTokens) {
  EXPECT_EQ(Check(R"lua(
    local hidden = tensor({ { 1, 0 }, { 0, 3 }, { 2, 2 } }, "fp64")
    local head = head(tensor({ { 1, 0 }, { 0, 1 } }, "fp64"), 2, 1.5)
    local targets = tensor({ 1, -100, 0 }, "int64")
    local log_prob, statistics = objectives.log_prob(hidden, head, targets,
      { temperature = 0.5, statistics = { "entropy", "mean_logit" } })
    local z = 1.5 * math.tanh(2 / 1.5) / 0.5 -- of the first row, beside 0
    local p = 1 / (1 + math.exp(z))
    near(log_prob:tolist()[1], math.log(p))
    near(log_prob:tolist()[3], -math.log(2))
    near(statistics.entropy:tolist()[1], -p * math.log(p) - (1 - p) * math.log(1 - p))
    near(statistics.entropy:tolist()[3], math.log(2))
    near(statistics.mean_logit:tolist()[1], z / 2)
    assert(statistics.entropy:tolist()[2] == 0)
    assert(objectives.sft():loss(log_prob, targets, statistics))
    local plain = objectives.entropy(hidden, head, targets, { temperature = 0.5 }):tolist()
    near(statistics.entropy:tolist()[1], plain[1])
    refused("temperature is 0, expected more than 0", objectives.log_prob, hidden, head, targets,
      { temperature = 0 })
  )lua"),
            "");
}

TEST_F(Objectives, PolicyGradientOfAnswers) {
  EXPECT_EQ(Check(R"lua(
    local mesh = moonring.comm.mesh {}
    local sequence = moonring.comm.sequence { documents = { { 1, 2, 3 }, { 4, 5 } },
      labels = { { -100, 2, 3 }, { -100, 5 } } }
    local layout = moonring.attention.create { mesh = mesh }:layout(sequence)
    local known = {}
    for _, loss in ipairs(objectives.policy_losses()) do known[loss.name] = loss end
    assert(known.rloo.of_sequences and not known.dapo.of_sequences and known.dr_grpo)

    local dapo = objectives.policy_gradient { beta = 0.5, epsilon = 0.1, epsilon_high = 0.3 }
    assert(dapo:needs_reference() and not objectives.policy_gradient():needs_reference())
    local targets = objectives.document_targets(sequence)
    assert(dapo:count { targets = targets } == 3)
    assert(objectives.policy_gradient { loss_type = "bnpo" }:count { targets = targets,
      counted = { false, true } } == 1)
    local log_probs = leaf(tensor({ -1, -2, 7, -3, 7 }, "fp64"))
    local batch = { log_probs = log_probs, advantages = tensor({ 1, -1 }, "fp64"),
      targets = sequence:targets(), reference = tensor({ -1, -1.5, 0, -3, 0 }, "fp64"),
      old = tensor({ -1.5, -2, 0, -3, 0 }, "fp64"), entropy = tensor({ 1, 2, 9, 4, 9 }, "fp64") }
    local sum, metrics = dapo:loss(layout, mesh, batch)
    local kl = math.exp(0.5) - 0.5 - 1
    near(sum:item(), -1.3 - 1 + 1 + 0.5 * kl)
    sum:backward()
    local gradient = gradient(log_probs):tolist()
    near(gradient[1], 0) -- clipped
    near(gradient[2], -1 - 0.5 * (math.exp(0.5) - 1))
    near(gradient[3], 0)
    near(gradient[4], 1)
    near(metrics.kl[1], kl)
    near(metrics.entropy[1], 7)
    near(metrics["clip_ratio/high_mean"][1], 1)
    assert(metrics.kl[2] == 3 and metrics["clip_ratio/region_mean"][2] == 3)
    local most = metrics["clip_ratio/high_max"]
    assert(most[1] == 0.5 and most[2] == 2 and most[3] == "max")
    assert(metrics["clip_ratio/low_min"][3] == "min" and not metrics["clip_ratio/low_mean"][3])

    batch.counted, batch.high_entropy = { true, false }, tensor({ 0, 1, 0, 0, 0 }, "fp64"):gt(0)
    near(dapo:loss(layout, mesh, batch):item(), -1 + 0.5 * kl)
    batch.advantage = batch.advantages
    refused("unknown option 'advantage'", dapo.loss, dapo, layout, mesh, batch)
    batch.advantage, batch.advantages = nil, tensor({ 1, 2, 3 }, "fp64")
    refused("advantages of shape [3] for 2 documents", dapo.loss, dapo, layout, mesh, batch)
    refused("unknown loss_type 'grppo' (did you mean 'grpo'?)", objectives.policy_gradient,
      { loss_type = "grppo" })
    refused("max_completion_length is 0", objectives.policy_gradient, { loss_type = "dr_grpo" })

    near(objectives.entropy_threshold(tensor({ 3, 1, 4, 2, 0 }, "fp64"), 0.4, mesh), 2.4)
    refused("the share is 2, expected 0 to 1", objectives.entropy_threshold, tensor { 1 }, 2, mesh)
  )lua"),
            "");
}

// Minimum and maximum metrics over micro-batches, ranks and steps. A metric over no elements does
// not count.
TEST_F(Objectives, MetricsThatAreExtremes) {
  EXPECT_EQ(Check(R"lua(
    local metrics = moonring.metrics
    local mesh = moonring.comm.mesh {}
    local total = metrics.add({}, { least = { 0.5, 2, "min" }, most = { 3, 1, "max" },
      mean = { 1, 2 }, none = { -math.huge, 0, "max" } })
    metrics.add(total, { least = { 0.25, 1, "min" }, most = { 2, 1, "max" }, mean = { 5, 1 } })
    metrics.add(total, { least = { math.huge, 0, "min" } })
    total = metrics.reduce(total, mesh, "sequence")
    local four, one = tensor({ 4 }, "fp64"):sum(), tensor({ 1 }, "fp64"):sum()
    metrics.add(total, { most = { four, one, "max" } })
    assert(total.least[1] == 0.25 and total.least[2] == 3 and total.least[3] == "min")
    assert(total.most[1] == 4 and total.most[2] == 3 and total.mean[3] == nil)
    local means = metrics.means(total)
    assert(means.least == 0.25 and means.most == 4 and means.mean == 2 and means.none == nil)
    refused('metric least: expected { value, count, "min" } or "max", got mid', metrics.add, {},
      { least = { 1, 1, "mid" } })
  )lua"),
            "");
}

TEST_F(Objectives, RouterWeights) {
  EXPECT_EQ(Check(R"lua(
    local weights = objectives.router_weights(tensor({ { 6, 2 }, { 0, 0 } }, "int64"),
      { per_token = 2, coefficient = 0.5 }):tolist()
    near(weights[1][1], 0.5 * 2 * 6 / 16)
    near(weights[1][2], 0.5 * 2 * 2 / 16)
    assert(weights[2][1] == 0 and weights[2][2] == 0)
    refused("3 choices of 2 experts", objectives.router_weights, tensor { { 1, 2 } },
      { per_token = 3, coefficient = 1 })
  )lua"),
            "");
}

// The reference's hidden states are freed after their last use. They are as large as the stream,
// and the scope that would otherwise free them also covers the policy's backward.
TEST_F(Objectives, AReferencesHiddenStatesEndWhereTheyAreUsedUp) {
  EXPECT_EQ(Check(R"lua(
    local hidden = tensor { { 1, 2 } }
    local batch = { statistics = "the policy's", hidden = function() return hidden end,
      document_log_probs = function(self, _, states)
        assert(states == hidden and tostring(states) ~= "Tensor (closed)")
        self.statistics = "the reference's"
        return states:sum()
      end }
    assert(require("moonring.run.reference").live({}):log_probs(batch):item() == 3)
    assert(tostring(hidden) == "Tensor (closed)", tostring(hidden))
    assert(batch.statistics == "the policy's")

    hidden = tensor { { 3, 4 } }
    batch.reference_hidden = function() return hidden end
    batch.token_log_probs = function(self, _, states, options)
      assert(tostring(states) ~= "Tensor (closed)" and options.temperature == 0.7)
      self.statistics = "the reference's"
      return states:sum()
    end
    local live = require("moonring.run.reference").live {}
    assert(live:token_log_probs(batch, { temperature = 0.7 }):item() == 7)
    assert(tostring(hidden) == "Tensor (closed)" and batch.statistics == "the policy's")
    local kept = require("moonring.run.reference").kept {}
    refused("precompute_ref_log_probs: true: the objective compares with the reference's "
      .. "log-probs of tokens", kept.token_log_probs, kept, batch)
    local objective = require "moonring.choices.objective"
    refused('expected needs_reference = "tokens"', objective.check, { level = "sequence",
      count = print, loss = print, needs_reference = true, temperature = 0.7 })
    objective.check { level = "sequence", count = print, loss = print,
      needs_reference = "tokens", temperature = 0.7 }
  )lua"),
            "");
}

}  // namespace
}  // namespace moonring::lua
