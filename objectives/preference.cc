#include "objectives/preference.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/autograd/custom_function.h"
#include "base/memory/to_device.h"
#include "base/text/nearest_name.h"
#include "nlohmann/json.hpp"

namespace moonring::objectives {
namespace {

absl::Status WrongPreferenceOption(absl::string_view option, double came,
                                   absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat("objectives.preference: ", option, " is ", came, ", expected ", wanted));
}

absl::Status CheckPreferenceOptions(const PreferenceOptions& options, const PreferenceLoss& loss) {
  const auto finite = [](double value) { return std::isfinite(value); };
  if (!finite(options.beta) || options.beta <= 0.0)
    return WrongPreferenceOption("beta", options.beta, "more than 0");
  if (!finite(options.ftx) || options.ftx < 0.0)
    return WrongPreferenceOption("ftx", options.ftx, "0 or more");
  if (!finite(options.simpo_gamma))
    return WrongPreferenceOption("simpo_gamma", options.simpo_gamma, "a number");
  if (!finite(options.bco_weight) || options.bco_weight < 0.0)
    return WrongPreferenceOption("bco_weight", options.bco_weight, "0 or more");
  if (options.bco_weight > 0.0 && !loss.needs_reference) {
    return WrongPreferenceOption(
        "bco_weight", options.bco_weight,
        absl::StrCat("0: BCO compares with a reference model, and ", loss.name, " has none"));
  }
  const double smoothing = options.label_smoothing;
  if (smoothing == 0.0) return absl::OkStatus();
  if (loss.most_smoothing == 0.0) {
    std::vector<std::string> with;
    for (const PreferenceLoss& other : PreferenceLosses()) {
      if (other.most_smoothing > 0.0) with.emplace_back(other.name);
    }
    return WrongPreferenceOption(
        "label_smoothing", smoothing,
        absl::StrCat("0: ", loss.name, " has none, only ", absl::StrJoin(with, " and "), " have"));
  }
  const bool within = loss.smoothing_below_most ? smoothing < loss.most_smoothing
                                                : smoothing <= loss.most_smoothing;
  if (!(smoothing > 0.0 && within)) {
    return WrongPreferenceOption(
        "label_smoothing", smoothing,
        absl::StrCat("0 to ", loss.smoothing_below_most ? "less than " : "", loss.most_smoothing,
                     " for ", loss.name));
  }
  return absl::OkStatus();
}

at::Tensor Half(const at::Tensor& documents, int64_t which) {
  return documents.view({-1, 2}).select(1, which);
}

void CheckDocuments(const char* name, const at::Tensor& values, const at::Tensor& policy) {
  TORCH_CHECK(values.defined() && values.sizes() == policy.sizes(), "objectives.preference: ", name,
              " of shape ", values.defined() ? values.sizes() : at::IntArrayRef(),
              ", policy of shape ", policy.sizes());
}

double MeanOf(const at::Tensor& values) { return values.mean().item<double>(); }

}  // namespace

absl::StatusOr<std::unique_ptr<Preference>> Preference::Create(PreferenceOptions options) {
  std::vector<std::string> names;
  for (const PreferenceLoss& loss : PreferenceLosses()) {
    names.emplace_back(loss.name);
    if (options.loss != loss.name) continue;
    if (absl::Status status = CheckPreferenceOptions(options, loss); !status.ok()) return status;
    return std::unique_ptr<Preference>(new Preference(std::move(options), &loss));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("objectives.preference: unknown loss '", options.loss, "'",
                   base::DidYouMean(options.loss, names), "; known: ", absl::StrJoin(names, ", ")));
}

Pairs Preference::PairsOf(const at::Tensor& policy, const at::Tensor& reference,
                          const at::Tensor& targets) const {
  TORCH_CHECK(
      policy.dim() == 1 && policy.size(0) % 2 == 0 && at::isFloatingType(policy.scalar_type()),
      "objectives.preference: policy ", policy.sizes(), " of ", policy.scalar_type(),
      ", expected a floating type [2 x pairs]");
  CheckDocuments("targets", targets, policy);
  const at::Tensor predictions = base::ToDevice(targets, policy.device()).to(at::kDouble);
  const auto as_used = [&](const at::Tensor& sums) {
    const at::Tensor exact = base::ToDevice(sums, policy.device()).to(at::kDouble);
    return loss_->mean_log_probs ? exact / predictions.clamp_min(1) : exact;
  };
  const at::Tensor ours = as_used(policy);
  Pairs pairs;
  pairs.chosen = Half(ours, 0);
  pairs.rejected = Half(ours, 1);
  pairs.chosen_known = Half(predictions, 0).gt(0);
  pairs.rejected_known = Half(predictions, 1).gt(0);
  if (!needs_reference()) return pairs;
  TORCH_CHECK(reference.defined(), "objectives.preference: ", loss_->name,
              " needs the reference's log-probs, none were given");
  CheckDocuments("reference", reference, policy);
  const at::Tensor ratio = ours - as_used(reference.detach());
  pairs.chosen_ratio = Half(ratio, 0);
  pairs.rejected_ratio = Half(ratio, 1);
  return pairs;
}

void Preference::Survey(const at::Tensor& policy, const at::Tensor& reference,
                        const at::Tensor& targets, int64_t group) {
  at::AutoGradMode with_gradient(true);  // Survey is called without gradients, but needs them here
  const auto here = [](const at::Tensor& values) {
    return values.defined() ? values.detach().to(at::kCPU) : values;
  };  // the means are read one by one
  const Pairs all = PairsOf(here(policy), here(reference), here(targets));
  groups_ = StepGroups(all.chosen.size(0), group);
  shared_ = {};
  for (int64_t k = 0; k < groups_.count(); ++k) {
    const auto of_group = [&](const at::Tensor& values) {
      return values.defined() ? values.narrow(0, groups_.begin(k), groups_.examples(k)) : values;
    };
    Pairs pairs;
    pairs.chosen = of_group(all.chosen);
    pairs.rejected = of_group(all.rejected);
    pairs.chosen_ratio = of_group(all.chosen_ratio);
    pairs.rejected_ratio = of_group(all.rejected_ratio);
    pairs.chosen_known = of_group(all.chosen_known);
    pairs.rejected_known = of_group(all.rejected_known);
    if (options_.bco_weight > 0.0) AddBaseline(pairs);
    if (loss_->uses_divergence) AddDivergence(std::move(pairs));
  }
}

void Preference::AddBaseline(const Pairs& pairs) {
  const double reward =
      options_.beta * (MeanOf(pairs.chosen_ratio) + MeanOf(pairs.rejected_ratio)) / 2;
  ++groups_seen_;
  mean_reward_ += (reward - mean_reward_) / static_cast<double>(groups_seen_);
  shared_.baseline.push_back(mean_reward_);
}

void Preference::AddDivergence(Pairs pairs) {
  const auto leaf = [](double mean) {
    return at::full({}, std::max(0.0, mean), at::kDouble).requires_grad_();
  };
  const double chosen = MeanOf(pairs.chosen_ratio), rejected = MeanOf(pairs.rejected_ratio);
  const at::Tensor chosen_leaf = leaf(chosen), rejected_leaf = leaf(rejected);
  const int64_t n = pairs.chosen.size(0);
  pairs.chosen_divergence = chosen_leaf.expand({n});
  pairs.rejected_divergence = rejected_leaf.expand({n});
  const at::Tensor sum = loss_->function(pairs, options_).losses.sum();
  const base::Tensors gradients =
      base::Differentiate({sum}, {chosen_leaf, rejected_leaf}, {at::ones_like(sum)});
  const auto slope = [&](double mean, const at::Tensor& gradient) {
    return mean >= 0.0 ? gradient.item<double>() / static_cast<double>(n) : 0.0;
  };
  shared_.chosen_divergence.push_back(chosen_leaf.item<double>());
  shared_.rejected_divergence.push_back(rejected_leaf.item<double>());
  shared_.chosen_slope.push_back(slope(chosen, gradients[0]));
  shared_.rejected_slope.push_back(slope(rejected, gradients[1]));
}

PairLosses Preference::LossesOf(Pairs& pairs, const std::vector<int64_t>& places) const {
  const auto of_group = [&](const std::vector<double>& numbers) {
    return groups_.Spread(numbers, places, pairs.chosen);
  };
  if (needs_survey()) {
    TORCH_CHECK(static_cast<int64_t>(places.size()) == pairs.chosen.size(0),
                "objectives.preference: ", places.size(), " places of ", pairs.chosen.size(0),
                " pairs");
  }
  if (loss_->uses_divergence) {
    pairs.chosen_divergence = of_group(shared_.chosen_divergence);
    pairs.rejected_divergence = of_group(shared_.rejected_divergence);
  }
  PairLosses result = loss_->function(pairs, options_);
  if (loss_->uses_divergence) {  // adds zero, with the gradient through the divergences
    result.losses =
        result.losses +
        of_group(shared_.chosen_slope) * (pairs.chosen_ratio - pairs.chosen_ratio.detach()) +
        of_group(shared_.rejected_slope) * (pairs.rejected_ratio - pairs.rejected_ratio.detach());
  }
  if (options_.bco_weight > 0.0) {
    const at::Tensor baseline = of_group(shared_.baseline);
    const at::Tensor bco = at::log_sigmoid(options_.beta * pairs.chosen_ratio - baseline) +
                           at::log_sigmoid(baseline - options_.beta * pairs.rejected_ratio);
    result.losses = (result.losses - options_.bco_weight * bco) / (1.0 + options_.bco_weight);
  }
  return result;
}

Metrics Preference::MetricsOf(const Pairs& pairs, const PairLosses& losses,
                              const PreferenceBatch& batch) const {
  const at::Tensor chosen_reward =
      options_.beta * (needs_reference() ? pairs.chosen_ratio : pairs.chosen).detach();
  const at::Tensor rejected_reward =
      options_.beta * (needs_reference() ? pairs.rejected_ratio : pairs.rejected).detach();
  const at::Tensor each = at::ones_like(chosen_reward);
  MetricSums sums;
  sums.AddMean("rewards/chosen", chosen_reward, each);
  sums.AddMean("rewards/rejected", rejected_reward, each);
  sums.AddMean("rewards/accuracies", chosen_reward.gt(rejected_reward), each);
  sums.AddMean("rewards/margins", chosen_reward - rejected_reward, each);
  sums.AddMean("logps/chosen", pairs.chosen.detach(), each);
  sums.AddMean("logps/rejected", pairs.rejected.detach(), each);
  for (const auto& [name, values] : losses.parts) sums.AddMean(name, values.detach(), each);
  if (batch.mean_logits.defined()) {
    CheckDocuments("mean_logits", batch.mean_logits, batch.policy);
    sums.Add("logits/chosen", Half(batch.mean_logits, 0).sum(), Half(batch.targets, 0).sum());
    sums.Add("logits/rejected", Half(batch.mean_logits, 1).sum(), Half(batch.targets, 1).sum());
  }
  return sums.Fetch();
}

Sums Preference::Loss(const PreferenceBatch& batch) const {
  Pairs pairs = PairsOf(batch.policy, batch.reference, batch.targets);
  const PairLosses result = LossesOf(pairs, batch.places);
  at::Tensor losses = result.losses;
  if (options_.ftx > 0.0) {
    const at::Tensor predictions =
        Half(base::ToDevice(batch.targets, losses.device()).to(at::kDouble), 0).clamp_min(1);
    losses =
        losses - options_.ftx * (loss_->mean_log_probs ? pairs.chosen : pairs.chosen / predictions);
  }
  return {losses.sum(), MetricsOf(pairs, result, batch)};
}

std::string Preference::State() const {
  return nlohmann::json{{"mean_reward", mean_reward_}, {"groups", groups_seen_}}.dump();
}

absl::Status Preference::LoadState(absl::string_view text) {
  const auto state =
      nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  const bool whole = state.is_object() && state.contains("mean_reward") &&
                     state["mean_reward"].is_number() && state.contains("groups") &&
                     state["groups"].is_number_unsigned() &&
                     state["groups"].get<int64_t>() >= 0;  // negative if the number is 2^63 or more
  if (!whole)
    return absl::InvalidArgumentError(absl::StrCat(
        "objectives.preference: a state requires mean_reward and groups, got '", text, "'"));
  mean_reward_ = state["mean_reward"].get<double>();
  groups_seen_ = state["groups"].get<int64_t>();
  groups_ = {};
  shared_ = {};
  return absl::OkStatus();
}

}  // namespace moonring::objectives
