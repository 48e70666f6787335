#include "objectives/kto.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include <ATen/ATen.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/memory/to_device.h"

namespace moonring::objectives {
namespace {

void CheckSize(const char* name, const at::Tensor& values, const at::Tensor& policy) {
  TORCH_CHECK(values.defined() && values.sizes() == policy.sizes(), "objectives.kto: ", name,
              " of shape ", values.defined() ? values.sizes() : at::IntArrayRef(),
              ", policy of shape ", policy.sizes());
}

void CheckPolicy(const at::Tensor& policy) {
  TORCH_CHECK(policy.dim() == 1 && at::isFloatingType(policy.scalar_type()),
              "objectives.kto: policy ", policy.sizes(), " of ", policy.scalar_type(),
              ", expected a floating type [examples]");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kto>> Kto::Create(KtoOptions options) {
  const auto wrong = [](absl::string_view option, double came, absl::string_view wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("objectives.kto: ", option, " is ", came, ", expected ", wanted));
  };
  if (!std::isfinite(options.beta) || options.beta <= 0.0)
    return wrong("beta", options.beta, "more than 0");
  const std::pair<const char*, double> weights[] = {{"chosen_weight", options.chosen_weight},
                                                    {"rejected_weight", options.rejected_weight},
                                                    {"ftx", options.ftx}};
  for (const auto& [name, weight] : weights) {
    if (!std::isfinite(weight) || weight < 0.0) return wrong(name, weight, "0 or more");
  }
  return std::unique_ptr<Kto>(new Kto(options));
}

Metrics Kto::Survey(const at::Tensor& policy, const at::Tensor& reference, int64_t group) {
  CheckPolicy(policy);
  CheckSize("reference", reference, policy);
  const auto here = [](const at::Tensor& values) {
    return values.detach().to(at::kCPU, at::kDouble);
  };  // all means are copied to the host at once
  const at::Tensor ratio = here(policy) - here(reference);
  groups_ = StepGroups(policy.size(0), group);
  divergence_.clear();
  for (int64_t k = 0; k < groups_.count(); ++k) {
    divergence_.push_back(std::max(
        0.0, ratio.narrow(0, groups_.begin(k), groups_.examples(k)).mean().item<double>()));
  }
  return {{"kl",
           {std::accumulate(divergence_.begin(), divergence_.end(), 0.0),
            static_cast<double>(divergence_.size())}}};
}

Sums Kto::Loss(const KtoBatch& batch) const {
  CheckPolicy(batch.policy);
  CheckSize("reference", batch.reference, batch.policy);
  CheckSize("targets", batch.targets, batch.policy);
  const int64_t examples = batch.policy.size(0);
  TORCH_CHECK(static_cast<int64_t>(batch.desirable.size()) == examples &&
                  static_cast<int64_t>(batch.places.size()) == examples,
              "objectives.kto: ", batch.desirable.size(), " desirable and ", batch.places.size(),
              " places of ", examples, " examples");
  const auto exact = [&](const at::Tensor& values) {
    return base::ToDevice(values, batch.policy.device()).to(at::kDouble);
  };
  const at::Tensor policy = exact(batch.policy), ratio = policy - exact(batch.reference.detach()),
                   targets = exact(batch.targets);
  const at::Tensor chosen = base::ToDevice(
                       std::vector<double>(batch.desirable.begin(), batch.desirable.end()),
                       policy.device()),
                   rejected = 1 - chosen;
  const at::Tensor divergence = groups_.Spread(divergence_, batch.places, policy);

  const at::Tensor sign = chosen - rejected;
  const at::Tensor weight = options_.chosen_weight * chosen + options_.rejected_weight * rejected;
  at::Tensor losses = weight * at::sigmoid(options_.beta * sign * (divergence - ratio));
  if (options_.ftx > 0.0) losses = losses - options_.ftx * chosen * policy / targets.clamp_min(1);

  MetricSums sums;
  for (const auto& [name, which] :
       {std::pair<std::string, const at::Tensor&>("chosen", chosen), {"rejected", rejected}}) {
    sums.AddMean("rewards/" + name, options_.beta * ratio.detach(), which);
    sums.AddMean("logps/" + name, policy.detach(), which);
    if (!batch.mean_logits.defined()) continue;
    CheckSize("mean_logits", batch.mean_logits, batch.policy);
    sums.Add("logits/" + name, exact(batch.mean_logits).mul(which).sum(), targets.mul(which).sum());
  }
  return {losses.sum(), sums.Fetch()};
}

}  // namespace moonring::objectives
