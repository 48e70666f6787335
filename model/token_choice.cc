#include "model/token_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_set>
#include <utility>

#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "base/threads/parallel_tasks.h"

namespace moonring::model {
namespace {

constexpr uint64_t kSeedStep = 0xD1B54A32D192ED03u, kCountStep = 0x9E3779B97F4A7C15u;

// SplitMix64's mixing of a counter. Stateless, and good enough for drawing tokens.
uint64_t Mixed(uint64_t seed, uint64_t count) {
  uint64_t z = seed * kSeedStep + (count + 1) * kCountStep;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// A pseudo-random number, uniform in [0, 1).
double Uniform(uint64_t seed, uint64_t index) {
  return static_cast<double>(Mixed(seed, index) >> 11) * 0x1.0p-53;
}

void PenaliseRepetition(std::vector<double>& logits, absl::Span<const int64_t> ids,
                        double penalty) {
  for (const int64_t id : std::unordered_set<int64_t>(ids.begin(), ids.end())) {
    if (id < 0 || id >= static_cast<int64_t>(logits.size())) continue;
    logits[id] = logits[id] > 0 ? logits[id] / penalty : logits[id] * penalty;
  }
}

// Returns token ids in order of falling logit. Equal logits are ordered by id, so the order does
// not depend on the sort algorithm. If keep > 0, only the first `keep` ids.
std::vector<int64_t> Ranked(const std::vector<double>& logits, int64_t keep) {
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto before = [&](int64_t a, int64_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  if (keep > 0 && keep < static_cast<int64_t>(order.size())) {
    std::partial_sort(order.begin(), order.begin() + keep, order.end(), before);
    order.resize(keep);
  } else {
    std::sort(order.begin(), order.end(), before);
  }
  return order;
}

// How many of `weights`, in falling order, are kept: the fewest whose sum reaches top_p of the
// total, and of these only those that are at least min_p times the first. At least one is kept.
size_t Nucleus(const std::vector<double>& weights, const SamplingOptions& options) {
  size_t kept = weights.size();
  if (options.top_p < 1.0) {
    const double wanted = options.top_p * std::accumulate(weights.begin(), weights.end(), 0.0);
    double sum = 0.0;
    for (size_t i = 0; i < kept; ++i) {
      sum += weights[i];
      if (sum >= wanted) kept = i + 1;
    }
  }
  while (kept > 1 && weights[kept - 1] < options.min_p * weights[0]) --kept;
  return kept;
}

// --- ChooseTokens -----------------------------------------------------------

// A row of logits and its weights exp((logit - max) / temperature).
template <typename Number>
class Row {
 public:
  Row(const Number* logits, int64_t size, double temperature)
      : logits_(logits), inverse_(static_cast<Number>(1.0 / temperature)), weights_(size) {
    bool bad = false;
    for (int64_t i = 0; i < size; ++i) {
      bad |= logits[i] != logits[i];
      highest_ = logits[i] > highest_ ? logits[i] : highest_;
    }
    TORCH_CHECK(!bad, "sampler: a logit is NaN");
    for (int64_t i = 0; i < size; ++i) weights_[i] = std::exp((logits[i] - highest_) * inverse_);
    for (const Number weight : weights_) sum_ += static_cast<double>(weight);
  }

  double LogProb(int64_t id) const {
    return static_cast<double>(logits_[id] - highest_) * static_cast<double>(inverse_) -
           std::log(sum_);
  }
  int64_t Likeliest() const { return std::max_element(logits_, logits_ + size()) - logits_; }

  // The `count` ids of greatest logit, in falling order (equal logits by id).
  std::vector<int64_t> Top(int64_t count) const {
    std::vector<int64_t> order(size());
    std::iota(order.begin(), order.end(), int64_t{0});
    count = std::min(count, size());
    std::partial_sort(order.begin(), order.begin() + count, order.end(), Before());
    order.resize(count);
    return order;
  }

  // Draws one of the kept tokens: the first id, in order of id, at which the cumulative weight
  // exceeds the fraction `u` of the sum of weights.
  int64_t Draw(double u, const SamplingOptions& options) const {
    if ((options.top_k > 0 && options.top_k < size()) || options.top_p < 1.0) {
      std::vector<int64_t> kept = Ranked(options);
      std::sort(kept.begin(), kept.end());
      return At(
          u, kept.size(), [&](int64_t i) { return kept[i]; }, 0.0);
    }
    return At(
        u, size(), [](int64_t i) { return i; }, options.min_p);
  }

 private:
  int64_t size() const { return static_cast<int64_t>(weights_.size()); }

  // The order of falling logit, of equal logits by id.
  auto Before() const {
    return [this](int64_t a, int64_t b) {
      return logits_[a] != logits_[b] ? logits_[a] > logits_[b] : a < b;
    };
  }

  // Draws among `count` ids; weights below `least` count as 0.
  template <typename IdOf>
  int64_t At(double u, int64_t count, const IdOf& id_of, double least) const {
    const auto weight_of = [&](int64_t i) {
      const auto weight = static_cast<double>(weights_[id_of(i)]);
      return weight < least ? 0.0 : weight;
    };
    double left = 0.0;
    for (int64_t i = 0; i < count; ++i) left += weight_of(i);
    left *= u;
    int64_t last = 0;  // the last id with weight > 0: rounding may leave `left` >= 0 at the end
    for (int64_t i = 0; i < count; ++i) {
      const double weight = weight_of(i);
      if (weight == 0.0) continue;
      last = i;
      left -= weight;
      if (left < 0.0) break;
    }
    return id_of(last);
  }

  // The ids that top_k, top_p and min_p keep, in order of falling logit (equal logits by id). Sorts
  // only a small multiple of the number of kept ids, not the whole vocabulary.
  std::vector<int64_t> Ranked(const SamplingOptions& options) const {
    std::vector<int64_t> order(size());
    std::iota(order.begin(), order.end(), int64_t{0});
    const auto before = Before();
    const int64_t most = options.top_k > 0 ? std::min(options.top_k, size()) : size();
    if (most < size()) std::nth_element(order.begin(), order.begin() + most, order.end(), before);
    order.resize(most);
    double wanted = 0.0;
    for (const int64_t id : order) wanted += static_cast<double>(weights_[id]);
    wanted *= options.top_p;
    double sum = 0.0;
    int64_t sorted = 0, kept = 0;
    for (int64_t count = std::min<int64_t>(most, 256); kept == sorted && sorted < most;
         count = std::min(most, 8 * count)) {
      std::partial_sort(order.begin() + sorted, order.begin() + count, order.end(), before);
      for (sorted = count; kept < sorted; ++kept) {
        const auto weight = static_cast<double>(weights_[order[kept]]);
        const bool enough = options.top_p < 1.0 && sum >= wanted;
        if (kept > 0 && (enough || weight < options.min_p)) break;
        sum += weight;
      }
    }
    order.resize(kept);
    return order;
  }

  const Number* logits_;
  Number inverse_, highest_ = -std::numeric_limits<Number>::infinity();
  std::vector<Number> weights_;
  double sum_ = 0.0;
};

template <typename Number>
int64_t IdOf(const Row<Number>& row, const ChoiceOf& of, const SamplingOptions& options) {
  if (options.temperature == 0.0) return row.Likeliest();
  const uint64_t seed = Mixed(Mixed(options.seed, of.key), of.answer);
  return row.Draw(Uniform(seed, of.new_ids.size()), options);
}

// `hooked`: the logits to choose from if a hook changed them; else null.
template <typename Number>
Choice Choose(const at::Tensor& logits_V, const Number* hooked, const ChoiceOf& of,
              const SamplingOptions& options) {
  const Number* const logits = logits_V.const_data_ptr<Number>();
  const int64_t size = logits_V.numel();
  const double temperature = options.temperature == 0.0 ? 1.0 : options.temperature;
  const Row<Number> row(logits, size, temperature);
  const Number* const from = hooked == nullptr ? logits : hooked;
  int64_t id = 0;
  if (options.repetition_penalty != 1.0) {
    std::vector<double> penalised(from, from + size);
    std::vector<int64_t> ids(of.prompt.begin(), of.prompt.end());
    ids.insert(ids.end(), of.new_ids.begin(), of.new_ids.end());
    PenaliseRepetition(penalised, ids, options.repetition_penalty);
    id = IdOf(Row<double>(penalised.data(), size, temperature), of, options);
  } else if (hooked != nullptr) {
    id = IdOf(Row<Number>(hooked, size, temperature), of, options);
  } else {
    id = IdOf(row, of, options);
  }
  Choice chosen{id, row.LogProb(id), {}};
  if (of.top > 0) {
    for (const int64_t each : row.Top(of.top)) chosen.top.push_back({each, row.LogProb(each)});
  }
  return chosen;
}

template <typename Number>
Choice Choose(const at::Tensor& logits_V, const at::Tensor& hooked_V, const ChoiceOf& of,
              const SamplingOptions& options) {
  return Choose(logits_V, hooked_V.defined() ? hooked_V.const_data_ptr<Number>() : nullptr, of,
                options);
}

}  // namespace

absl::Status Validate(const SamplingOptions& options) {
  const auto refuse = [](absl::string_view name, auto came, absl::string_view wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling: ", name, " is ", came, ", expected ", wanted));
  };
  if (options.max_new_tokens < 0)
    return refuse("max_new_tokens", options.max_new_tokens, "0 or more");
  if (!(options.temperature >= 0.0) || std::isinf(options.temperature))
    return refuse("temperature", options.temperature, "0 (greedy) or more");
  if (options.top_k < 0) return refuse("top_k", options.top_k, "0 (all) or more");
  if (!(options.top_p > 0.0 && options.top_p <= 1.0))
    return refuse("top_p", options.top_p, "above 0 and at most 1");
  if (!(options.min_p >= 0.0 && options.min_p <= 1.0))
    return refuse("min_p", options.min_p, "0 (all) to 1");
  if (!(options.repetition_penalty > 0.0) || std::isinf(options.repetition_penalty))
    return refuse("repetition_penalty", options.repetition_penalty, "above 0");
  return absl::OkStatus();
}

int64_t ChooseToken(const at::Tensor& logits_V, absl::Span<const int64_t> ids,
                    const SamplingOptions& options, int64_t index) {
  TORCH_CHECK(logits_V.dim() == 1 && logits_V.numel() > 0, "sampler: logits of shape ",
              logits_V.sizes(), ", expected [V]");
  const at::Tensor host = logits_V.to(at::kCPU, at::kDouble).contiguous();
  std::vector<double> logits(host.const_data_ptr<double>(),
                             host.const_data_ptr<double>() + host.numel());
  TORCH_CHECK(std::none_of(logits.begin(), logits.end(), [](double x) { return std::isnan(x); }),
              "sampler: a logit is NaN");
  if (options.repetition_penalty != 1.0)
    PenaliseRepetition(logits, ids, options.repetition_penalty);
  if (options.temperature == 0.0)
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  const std::vector<int64_t> order = Ranked(logits, options.top_k);
  const double highest = logits[order[0]];
  std::vector<double> weights;
  weights.reserve(order.size());
  for (const int64_t id : order)
    weights.push_back(std::exp((logits[id] - highest) / options.temperature));
  weights.resize(Nucleus(weights, options));
  double left = Uniform(options.seed, static_cast<uint64_t>(index)) *
                std::accumulate(weights.begin(), weights.end(), 0.0);
  size_t last = 0;  // the last one with weight > 0: rounding may leave `left` >= 0 at the end
  for (size_t i = 0; i < weights.size() && weights[i] > 0.0; ++i) {
    last = i;
    left -= weights[i];
    if (left < 0.0) break;
  }
  return order[last];
}

std::vector<Choice> ChooseTokens(const std::vector<ChoiceOf>& choices,
                                 const SamplingOptions& options) {
  std::vector<at::Tensor> logits, hooked;
  for (const ChoiceOf& of : choices) {
    TORCH_CHECK(of.logits_V.dim() == 1 && of.logits_V.numel() > 0, "sampler: logits of shape ",
                of.logits_V.sizes(), ", expected [V]");
    TORCH_CHECK(!of.hooked_V.defined() || of.hooked_V.sizes() == of.logits_V.sizes(),
                "sampler: hooked logits of shape ", of.hooked_V.sizes(), ", expected ",
                of.logits_V.sizes());
    const at::ScalarType wide = of.logits_V.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const auto host = [&](const at::Tensor& some_V) {
      return some_V.defined() ? some_V.to(at::kCPU, wide).contiguous() : some_V;
    };
    logits.push_back(host(of.logits_V));
    hooked.push_back(host(of.hooked_V));
  }
  std::vector<Choice> chosen(choices.size());
  if (choices.empty()) return chosen;
  base::RunParallelTasks(std::vector<double>(choices.size(), 1.0), [&](int64_t i) {
    const ChoiceOf& of = choices[i];
    const SamplingOptions& sampling = of.sampling == nullptr ? options : *of.sampling;
    chosen[i] = logits[i].scalar_type() == at::kDouble
                    ? Choose<double>(logits[i], hooked[i], of, sampling)
                    : Choose<float>(logits[i], hooked[i], of, sampling);
  });
  return chosen;
}

}  // namespace moonring::model
