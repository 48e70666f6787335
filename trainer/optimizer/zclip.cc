#include "trainer/optimizer/zclip.h"

#include <cmath>
#include <limits>
#include <numeric>

#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace moonring::trainer {

double ZClip::Limit(double norm) {
  TORCH_CHECK(std::isfinite(norm), "trainer.zclip: a norm of ", norm, ", expected a finite one");
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (first_.size() < kWarmup) {
    first_.push_back(norm);
    if (first_.size() < kWarmup) return kNone;
    mean_ = std::accumulate(first_.begin(), first_.end(), 0.0) / kWarmup;
    variance_ =
        std::accumulate(first_.begin(), first_.end(), 0.0,
                        [this](double sum, double g) { return sum + (g - mean_) * (g - mean_); }) /
        kWarmup;
    return kNone;
  }
  const double deviation = std::sqrt(variance_);
  const double z = (norm - mean_) / (deviation + kEpsilon);
  const bool spike = z > kThreshold;
  const double taken = spike ? mean_ + kThreshold * kThreshold / z * deviation : norm;
  mean_ = kSmoothing * mean_ + (1 - kSmoothing) * taken;
  variance_ = kSmoothing * variance_ + (1 - kSmoothing) * (taken - mean_) * (taken - mean_);
  return spike ? taken : kNone;
}

std::string ZClip::SaveState() const {
  return nlohmann::json{{"first", first_}, {"mean", mean_}, {"variance", variance_}}.dump();
}

absl::Status ZClip::LoadState(const std::string& text) {
  const nlohmann::json state = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto number = [&](const char* name) {
    return state.contains(name) && state[name].is_number();
  };
  bool whole = state.is_object() && number("mean") && number("variance") &&
               state.contains("first") && state["first"].is_array();
  if (whole) {
    for (const auto& norm : state["first"]) whole = whole && norm.is_number();
  }
  if (!whole || state["first"].size() > kWarmup) {
    return absl::InvalidArgumentError(absl::StrCat(
        "trainer.zclip: expected a history {first, mean, variance}, got ", text.substr(0, 80)));
  }
  first_ = state["first"].get<std::vector<double>>();
  mean_ = state["mean"];
  variance_ = state["variance"];
  return absl::OkStatus();
}

}  // namespace moonring::trainer
