#include "objectives/policy_gradient.h"

#include <cmath>

#include <ATen/ATen.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/memory/to_device.h"
#include "base/status/torch_status.h"
#include "base/text/nearest_name.h"
#include "comm/sequence.h"
#include "objectives/documents.h"

namespace moonring::objectives {
namespace {

using Divisor = PolicyLoss::Divisor;

constexpr PolicyLoss kPolicyLosses[] = {
    {.name = "grpo", .divisor = Divisor::kAnswers, .mean_of_tokens = true, .of_sequences = false},
    {.name = "bnpo",
     .divisor = Divisor::kCountedTokens,
     .mean_of_tokens = false,
     .of_sequences = false},
    {.name = "dapo",
     .divisor = Divisor::kCountedTokens,
     .mean_of_tokens = false,
     .of_sequences = false},
    {.name = "dr_grpo",
     .divisor = Divisor::kLongestAnswers,
     .mean_of_tokens = false,
     .of_sequences = false},
    {.name = "rloo", .divisor = Divisor::kAnswers, .mean_of_tokens = false, .of_sequences = true},
};

absl::Status WrongPolicyOption(absl::string_view option, const absl::AlphaNum& came,
                               absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat("objectives.policy_gradient: ", option, " is ",
                                                 came.Piece(), ", expected ", wanted));
}

absl::Status Unknown(absl::string_view option, const std::string& came,
                     const std::vector<std::string>& known) {
  return absl::InvalidArgumentError(absl::StrCat("objectives.policy_gradient: unknown ", option,
                                                 " '", came, "'", base::DidYouMean(came, known),
                                                 "; known: ", absl::StrJoin(known, ", ")));
}

absl::Status CheckPolicyOptions(const PolicyGradientOptions& o, const PolicyLoss& loss) {
  const auto at_least_0 = [](double value) { return std::isfinite(value) && value >= 0.0; };
  if (!at_least_0(o.beta)) return WrongPolicyOption("beta", o.beta, "0 or more");
  if (!at_least_0(o.epsilon)) return WrongPolicyOption("epsilon", o.epsilon, "0 or more");
  if (o.epsilon_high && !at_least_0(*o.epsilon_high))
    return WrongPolicyOption("epsilon_high", *o.epsilon_high, "0 or more");
  if (o.delta && !(std::isfinite(*o.delta) && *o.delta > 0.0))
    return WrongPolicyOption("delta", *o.delta, "more than 0");
  const std::string& level = o.importance_sampling_level;
  if (level != "token" && level != "sequence")
    return Unknown("importance_sampling_level", level, {"token", "sequence"});
  if (loss.divisor == Divisor::kLongestAnswers && o.max_completion_length < 1)
    return WrongPolicyOption("max_completion_length", o.max_completion_length,
                             "1 or more for dr_grpo");
  if (!loss.of_sequences) return absl::OkStatus();
  if (o.beta > 0.0) return WrongPolicyOption("beta", o.beta, "0: rloo's KL term is in its rewards");
  if (o.delta) return WrongPolicyOption("delta", *o.delta, "none: rloo has no such bound");
  if (level != "token") {
    return WrongPolicyOption("importance_sampling_level", level,
                             "none: rloo's ratios are always of whole answers");
  }
  return absl::OkStatus();
}

void CheckTokens(const char* name, const at::Tensor& values_T, const at::Tensor& log_prob_T) {
  TORCH_CHECK(values_T.defined() && values_T.sizes() == log_prob_T.sizes(),
              "objectives.policy_gradient: ", name, " of shape ",
              values_T.defined() ? values_T.sizes() : at::IntArrayRef(), ", log-probs of shape ",
              log_prob_T.sizes());
}

void CheckCounted(const std::vector<bool>& counted, int64_t documents) {
  TORCH_CHECK(counted.empty() || static_cast<int64_t>(counted.size()) == documents,
              "objectives.policy_gradient: counted says so of ", counted.size(), " documents of ",
              documents);
}

void CheckBatch(const PolicyBatch& batch, int64_t documents) {
  TORCH_CHECK(batch.log_prob_T.dim() == 1 && at::isFloatingType(batch.log_prob_T.scalar_type()),
              "objectives.policy_gradient: log-probs ", batch.log_prob_T.sizes(), " of ",
              batch.log_prob_T.scalar_type(), ", expected a floating type [T_local]");
  CheckTokens("targets", batch.targets_T, batch.log_prob_T);
  TORCH_CHECK(batch.advantages.defined() && batch.advantages.sizes().equals({documents}),
              "objectives.policy_gradient: advantages of shape ",
              batch.advantages.defined() ? batch.advantages.sizes() : at::IntArrayRef(), " for ",
              documents, " documents");
  CheckCounted(batch.counted, documents);
}

// Returns fp64 [documents]: 0 for a masked answer, 1 for all others.
at::Tensor Counted(const std::vector<bool>& counted, int64_t documents, c10::Device device) {
  if (counted.empty())
    return at::ones({documents}, at::TensorOptions().dtype(at::kDouble).device(device));
  return base::ToDevice(std::vector<double>(counted.begin(), counted.end()), device);
}

// Returns int64 [T_local]: the index of each token's document.
at::Tensor DocumentOfTokens(const comm::Layout& layout, int rank, c10::Device device) {
  std::vector<int64_t> document_of;
  document_of.reserve(layout.local_tokens(rank));
  for (const comm::Span& span : layout.spans(rank))
    document_of.insert(document_of.end(), span.tokens(), span.document);
  return base::ToDevice(document_of, device);
}

// The sums of every column over each document's tokens, by one all-reduce.
std::map<std::string, at::Tensor> SumsOf(const std::map<std::string, at::Tensor>& columns_T,
                                         const comm::Layout& layout,
                                         const std::shared_ptr<comm::Communicator>& group) {
  std::vector<at::Tensor> all;
  for (const auto& [name, column_T] : columns_T) all.push_back(column_T);
  const at::Tensor sums_DK = DocumentSums(at::stack(all, 1), layout, group);
  std::map<std::string, at::Tensor> sums;
  for (const auto& [name, column_T] : columns_T)
    sums[name] = sums_DK.select(1, static_cast<int64_t>(sums.size()));
  return sums;
}

// The greatest of all ranks' values, which must not be negative; 0 if there are no values.
at::Tensor GreatestOf(const at::Tensor& values_T, comm::Communicator& group) {
  at::Tensor most = at::cat({values_T, at::zeros({1}, values_T.options())}).amax(0, true);
  base::ThrowIfError(group.AllReduceMax(most));
  return most[0];
}

}  // namespace

absl::Span<const PolicyLoss> PolicyLosses() { return kPolicyLosses; }

absl::StatusOr<std::unique_ptr<PolicyGradient>> PolicyGradient::Create(
    PolicyGradientOptions options) {
  std::vector<std::string> names;
  for (const PolicyLoss& loss : kPolicyLosses) {
    names.emplace_back(loss.name);
    if (options.loss_type != loss.name) continue;
    if (absl::Status status = CheckPolicyOptions(options, loss); !status.ok()) return status;
    return std::unique_ptr<PolicyGradient>(new PolicyGradient(std::move(options), &loss));
  }
  return Unknown("loss_type", options.loss_type, names);
}

int64_t PolicyGradient::Count(const at::Tensor& targets, const std::vector<bool>& counted) const {
  TORCH_CHECK(targets.dim() == 1, "objectives.policy_gradient: targets of shape ", targets.sizes(),
              ", expected [documents]");
  const int64_t documents = targets.size(0);
  CheckCounted(counted, documents);
  const at::Tensor of_each = targets.to(at::kCPU, at::kDouble);
  const auto whole = [](const at::Tensor& sum) {
    return static_cast<int64_t>(std::llround(sum.item<double>()));
  };
  const int64_t answers = whole(of_each.gt(0).sum());
  switch (loss_->divisor) {
    case Divisor::kAnswers:
      return answers;
    case Divisor::kLongestAnswers:
      return answers * options_.max_completion_length;
    case Divisor::kCountedTokens:
      return whole((of_each * Counted(counted, documents, at::kCPU)).sum());
  }
  TORCH_INTERNAL_ASSERT(false);
}

PolicyGradient::Clipped PolicyGradient::Clip(const at::Tensor& log_ratio,
                                             const at::Tensor& advantages) const {
  const double least = 1.0 - options_.epsilon,
               most = 1.0 + options_.epsilon_high.value_or(options_.epsilon);
  at::Tensor ratio = log_ratio.exp();
  const at::Tensor clipped = ratio.clamp(least, most);
  if (options_.delta) ratio = ratio.clamp_max(*options_.delta);
  const at::Tensor seen = ratio.detach();
  return {.losses = at::minimum(ratio * advantages, clipped * advantages).neg(),
          .low = seen.lt(least).logical_and(advantages.lt(0)).to(at::kDouble),
          .high = seen.gt(most).logical_and(advantages.gt(0)).to(at::kDouble)};
}

PolicyGradient::Columns PolicyGradient::ColumnsOf(const PolicyBatch& batch,
                                                  const comm::Layout& layout, int rank) const {
  const at::Tensor& log_prob_T = batch.log_prob_T;
  const c10::Device device = log_prob_T.device();
  const at::Tensor document_T = DocumentOfTokens(layout, rank, device);
  CheckTokens("the layout's tokens", document_T, log_prob_T);
  const at::Tensor predicted_T = base::ToDevice(batch.targets_T, device).ne(comm::kIgnore);
  const at::Tensor counts_T = predicted_T.logical_and(
      Counted(batch.counted, batch.advantages.size(0), device).index_select(0, document_T).gt(0));
  const at::Tensor zero = at::zeros({}, log_prob_T.options().dtype(at::kDouble));
  const auto exact = [&](const char* name, const at::Tensor& values_T) {
    CheckTokens(name, values_T, log_prob_T);
    return at::where(counts_T, base::ToDevice(values_T, device).to(at::kDouble), zero);
  };

  Columns columns_T;
  columns_T["predicted"] = predicted_T.to(at::kDouble);
  columns_T["tokens"] = columns_T["weights"] = counts_T.to(at::kDouble);
  if (batch.high_entropy_T.defined())
    columns_T["weights"] = exact("high_entropy", batch.high_entropy_T);
  if (batch.entropy_T.defined()) columns_T["entropy"] = exact("entropy", batch.entropy_T.detach());
  const at::Tensor p_T = exact("log-probs", log_prob_T);
  if (needs_reference()) {
    const at::Tensor d_T = exact("the reference's log-probs", batch.reference_T).detach() - p_T;
    columns_T["kl"] = d_T.expm1() - d_T;
  }
  const at::Tensor old_T = batch.old_T.defined() ? exact("old log-probs", batch.old_T) : p_T;
  const at::Tensor log_ratio_T = p_T - old_T.detach();
  if (batch.sampled_T.defined()) {
    columns_T["difference"] =
        (old_T - exact("the sampler's log-probs", batch.sampled_T)).detach().abs();
  }
  if (by_sequence()) {
    columns_T["log_ratio"] = log_ratio_T;
  } else {
    const Clipped clipped =
        Clip(log_ratio_T,
             base::ToDevice(batch.advantages, device).to(at::kDouble).index_select(0, document_T));
    columns_T["losses"] = clipped.losses * columns_T["weights"];
    columns_T["low"] = clipped.low * columns_T["tokens"];
    columns_T["high"] = clipped.high * columns_T["tokens"];
  }
  return columns_T;
}

Sums PolicyGradient::Loss(const PolicyBatch& batch, const comm::Layout& layout,
                          const std::shared_ptr<comm::Communicator>& group) const {
  CheckBatch(batch, static_cast<int64_t>(layout.lengths().size()));
  TORCH_CHECK(!batch.high_entropy_T.defined() || !loss_->of_sequences,
              "objectives.policy_gradient: ", loss_->name, " has no use for high_entropy");
  const Columns columns_T = ColumnsOf(batch, layout, group->rank());
  Columns sums = SumsOf(columns_T, layout, group);
  const at::Tensor answer = sums["predicted"].detach().gt(0), tokens = sums["tokens"].detach(),
                   tokens_or_1 = tokens.clamp_min(1);
  at::Tensor losses, low, high;  // low, high: shares within each answer
  if (by_sequence()) {
    const at::Tensor& log_ratio = sums["log_ratio"];
    const Clipped clipped =
        Clip(loss_->of_sequences ? log_ratio : log_ratio / tokens_or_1,
             base::ToDevice(batch.advantages, log_ratio.device()).to(at::kDouble));
    losses = clipped.losses * (loss_->of_sequences ? answer : sums["weights"].detach());
    low = clipped.low * answer;
    high = clipped.high * answer;
  } else {
    losses = sums["losses"];
    low = sums["low"].detach() / tokens_or_1;
    high = sums["high"].detach() / tokens_or_1;
  }
  if (needs_reference()) losses = losses + options_.beta * sums["kl"];
  if (loss_->mean_of_tokens) losses = losses / tokens_or_1;

  MetricSums metrics;
  for (const char* name : {"kl", "entropy"}) {
    if (sums.contains(name)) metrics.Add(name, sums[name].sum(), tokens.sum());
  }
  const at::Tensor known = by_sequence() ? answer : tokens.gt(0),
                   weights = by_sequence() ? answer.to(at::kDouble) : tokens;
  metrics.AddMean("clip_ratio/low_mean", low, weights);
  metrics.AddMean("clip_ratio/high_mean", high, weights);
  metrics.AddMean("clip_ratio/region_mean", low + high, weights);
  metrics.AddExtreme("clip_ratio/low_min", MetricKind::kMin, low, known);
  metrics.AddExtreme("clip_ratio/high_max", MetricKind::kMax, high, known);
  if (sums.contains("difference")) {
    const std::string name = "sampling/logp_difference/";
    metrics.Add(name + "mean", sums["difference"].sum(), tokens.sum());
    metrics.Add(name + "max", GreatestOf(columns_T.at("difference"), *group), tokens.sum(),
                MetricKind::kMax);
  }
  return {losses.sum(), metrics.Fetch()};
}

}  // namespace moonring::objectives
