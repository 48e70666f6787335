#include "model/fixed_parts.h"

#include <algorithm>
#include <set>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/norm.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/memory/to_device.h"
#include "base/status/status_macros.h"
#include "base/text/ordered_json.h"
#include "model/config/text_config.h"
#include "model/config/weights.h"
#include "model/families/parse_config.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

constexpr int64_t kSumElements = int64_t{1}
                                 << 22;  // elements of a weight that are in fp64 at a time

// Returns W + s B A, or for DoRA g (W + s B A) with a gain g per row, computed a tile of rows at a
// time. W is `weight`; s B A and g come from `change`.
at::Tensor WithLowRank(const FixedChange& change, const at::Tensor& weight) {
  const auto wide = [&](const at::Tensor& tensor) {
    return tensor.to(weight.device()).to(at::kDouble);
  };
  at::Tensor merged = at::empty_like(weight);
  const at::Tensor a = wide(change.a_RI);
  const int64_t rows = weight.size(0),
                step = std::max<int64_t>(1, kSumElements / std::max<int64_t>(1, weight.size(1)));
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t count = std::min(step, rows - begin);
    const auto part = [&](const at::Tensor& tensor) {
      return wide(tensor.narrow(0, begin, count));
    };
    at::Tensor sum = at::addmm(part(weight), part(change.b_OR), a, 1.0, change.scale);
    if (change.magnitude_O.defined())
      sum.mul_((part(change.magnitude_O) / sum.norm(2, {1})).unsqueeze(1));
    merged.narrow(0, begin, count).copy_(sum);
  }
  return merged;
}

std::set<std::string> WeightNamesOf(const ModelConfig& config) {
  std::set<std::string> names;
  for (WeightShape& weight : WantedWeights(config)) names.insert(std::move(weight.name));
  return names;
}

}  // namespace

bool FixedParts::Parts(const std::string& embedding, const std::string& head) const {
  const auto of = [&](const std::string& name) {
    const auto found = changes.find(name);
    return found == changes.end() ? nullptr : &found->second;
  };
  const FixedChange *e = of(embedding), *h = of(head);
  if (e == nullptr && h == nullptr) return false;
  if (e == nullptr || h == nullptr) return true;
  return !(e->whole.is_same(h->whole) && e->a_RI.is_same(h->a_RI) &&
           e->rows_ND.is_same(h->rows_ND));
}

at::Tensor FixedParts::Applied(const std::string& name, const at::Tensor& weight) const {
  const auto found = changes.find(name);
  if (found == changes.end()) return weight;
  at::NoGradGuard no_grad;
  const FixedChange& change = found->second;
  at::Tensor applied =
      change.whole.defined() ? change.whole.to(weight.device()).to(weight.scalar_type()) : weight;
  if (change.a_RI.defined()) applied = WithLowRank(change, applied);
  if (change.plus_O.defined()) {
    const at::Tensor plus = change.plus_O.to(weight.device()).to(at::kDouble);
    applied = (applied.to(at::kDouble) + plus * change.scale).to(weight.scalar_type());
  }
  if (change.rows_ND.defined()) {
    const at::Tensor rows = change.rows_ND.to(weight.device()).to(weight.scalar_type());
    applied = applied.index_copy(0, base::ToDevice(change.tokens, weight.device()), rows);
  }
  return applied;
}

absl::StatusOr<ModelConfig> FixedParts::ConfigOver(const ModelConfig& base) const {
  std::set<std::string> missing;
  const std::set<std::string> there = WeightNamesOf(base);
  for (const auto& [name, change] : changes) {
    if (absl::EndsWith(name, ".bias") && !there.contains(name)) missing.insert(name);
  }
  if (missing.empty()) return base;
  ModelConfig config = base;
  base::OrderedJson json = base::OrderedJson::parse(config.json);
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    const bool wanted = std::any_of(missing.begin(), missing.end(), [&](const std::string& name) {
      return absl::StrContains(name, ".mlp.") == (std::string(key) == "mlp_bias");
    });
    if (wanted) TextConfigOf(*config.family, json)[key] = true;
  }
  ASSIGN_OR_RETURN(const ModelConfig parsed, ParseConfig(json.dump(), "config.json"));
  config.json = json.dump(2);
  config.qkv_bias = parsed.qkv_bias;
  config.output_bias = parsed.output_bias;
  config.mlp_bias = parsed.mlp_bias;
  const std::set<std::string> now = WeightNamesOf(config);
  for (const std::string& name : missing) {
    if (!now.contains(name))
      return absl::UnimplementedError(absl::StrCat(
          "lora_bias, bias: ", name, ": models of ", config.architecture,
          " have no such bias, and no key of config.json gives them one: it cannot be merged"));
  }
  return config;
}

}  // namespace moonring::model
