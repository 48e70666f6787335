#include "model/checkpoint/fresh_weights.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "kernels/random/counter_random.h"
#include "model/config/block_weights.h"
#include "model/config/family.h"
#include "model/config/weights.h"
#include "model/files/json_text.h"
#include "model/files/weight_shape.h"
#include "nlohmann/json.hpp"

namespace moonring::model {
namespace {

using Kind = FirstValues::Kind;

constexpr int64_t kGrain = 1 << 14;  // minimum number of pairs per thread

// Parameters of the initial distributions, from config.json.
struct Numbers {
  double deviation = 0.02;
  double least_rate = 0.0, most_rate = 0.0, least_step = 0.0, most_step = 0.0, step_floor = 0.0;
  bool scales_output = false;
};

absl::StatusOr<double> ReadNumber(const JsonFields& fields, const FreshNumber& number) {
  if (*number.key == '\0') return number.otherwise;
  return fields.Number(number.key, number.otherwise);
}

absl::StatusOr<Numbers> ReadNumbers(const JsonFields& fields, const FreshRule& rule) {
  Numbers numbers;
  ASSIGN_OR_RETURN(numbers.deviation, fields.Number("initializer_range", numbers.deviation));
  if (!(numbers.deviation > 0.0 && std::isfinite(numbers.deviation)))
    return fields.Wrong("initializer_range", "a number above 0, to draw weights by");
  ASSIGN_OR_RETURN(numbers.least_rate, ReadNumber(fields, rule.least_rate));
  ASSIGN_OR_RETURN(numbers.most_rate, ReadNumber(fields, rule.most_rate));
  ASSIGN_OR_RETURN(numbers.least_step, ReadNumber(fields, rule.least_step));
  ASSIGN_OR_RETURN(numbers.most_step, ReadNumber(fields, rule.most_step));
  ASSIGN_OR_RETURN(numbers.step_floor, ReadNumber(fields, rule.step_floor));
  ASSIGN_OR_RETURN(const bool scales, fields.Bool("rescale_prenorm_residual", true));
  numbers.scales_output = rule.scales_output && scales;
  if (!(numbers.least_rate >= 0.0 && numbers.most_rate > numbers.least_rate &&
        std::isfinite(numbers.most_rate))) {
    return absl::InvalidArgumentError(absl::StrCat(
        fields.where(), ": ", rule.least_rate.key, ", ", rule.most_rate.key, ": rates from ",
        numbers.least_rate, " to ", numbers.most_rate, ", expected 0 or more to more than that"));
  }
  // The bounds of a step may be in either order.
  const auto is_step = [](double x) { return x > 0.0 && std::isfinite(x); };
  if (!is_step(numbers.least_step) || !is_step(numbers.most_step) || !is_step(numbers.step_floor)) {
    return absl::InvalidArgumentError(absl::StrCat(
        fields.where(), ": ", rule.least_step.key, ", ", rule.most_step.key, ", ",
        rule.step_floor.key, ": steps from ", numbers.least_step, " to ", numbers.most_step,
        ", at least ", numbers.step_floor, ": expected numbers above 0"));
  }
  return numbers;
}

FirstValues Constant(double value) { return {.kind = Kind::kConstant, .a = value}; }
FirstValues Normal(const Numbers& numbers) {
  return {.kind = Kind::kNormal, .a = numbers.deviation};
}

FirstValues Shift(const ModelConfig& config, const Numbers& numbers) {
  if (!config.family->fresh.draws_step) return Constant(1.0);
  return {.kind = Kind::kStep,
          .a = numbers.least_step,
          .b = numbers.most_step,
          .floor = numbers.step_floor};
}

// Initial values of a parameter of a block that is neither a map nor a norm.
FirstValues OfNumbers(const ModelConfig& config, const Numbers& numbers, int place) {
  switch (place) {
    case kDeltaDecayLog:
      return {.kind = Kind::kLogRate, .a = numbers.least_rate, .b = numbers.most_rate};
    case kStateDecayLog:
      return {.kind = Kind::kLogCount};
    case kDeltaDecayShift:
    case kStateStepShift:
      return Shift(config, numbers);
    case kSinks:
      return Normal(numbers);
    default:
      return Constant(1.0);
  }
}

FirstValues OfMap(const ModelConfig& config, const Numbers& numbers, int place) {
  if (place != kStateOutput || !numbers.scales_output) return Normal(numbers);
  const double inputs = static_cast<double>(config.state_space.width());
  return {.kind = Kind::kUniform,
          .a = 1.0 / std::sqrt(inputs * static_cast<double>(config.layers))};
}

FirstValues OfBlock(const ModelConfig& config, const Numbers& numbers, int place) {
  const bool of_result = place == kDeltaNorm || place == kStateNorm;
  const bool stacked_bias = place == kExpertsGateUpBias || place == kExpertsDownBias;
  switch (FactsOf(place).kind) {
    case WeightKind::kMap:
      return OfMap(config, numbers, place);
    case WeightKind::kFilter:
      return Normal(numbers);
    case WeightKind::kBias:
      return place == kRouterBias ? Normal(numbers) : Constant(0.0);
    case WeightKind::kStack:
      return stacked_bias ? Constant(0.0) : Normal(numbers);
    case WeightKind::kNorm:  // norms after a delta rule or state space never use 1 + w
      return Constant(config.norm_adds_one && !of_result ? 0.0 : 1.0);
    case WeightKind::kBuffer:
      return Constant(place == kRouterCorrection ? 0.0 : 1.0);
    case WeightKind::kNumbers:
      return OfNumbers(config, numbers, place);
  }
  return Constant(0.0);
}

std::map<std::string, FirstValues> FirstValuesOf(const ModelConfig& config,
                                                 const Numbers& numbers) {
  std::map<std::string, FirstValues> first;
  FirstValues table = Normal(numbers);
  table.zero_row = config.pad_token_id.value_or(-1);
  const FirstValues norm = Constant(config.norm_adds_one ? 0.0 : 1.0);
  first[EmbeddingName(config)] = table;
  first[HeadName(config)] = Normal(numbers);
  first[FinalNormName(config)] = norm;
  if (config.layer_inputs.width > 0) {
    first[LayerTableName(config)] = table;
    first[LayerMapName(config)] = Normal(numbers);
    first[LayerMapNormName(config)] = norm;
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (int place = 0; place < WeightPlaces(config, layer); ++place) {
      const std::string name = WeightName(config, layer, place);
      if (!name.empty()) first[name] = OfBlock(config, numbers, place);
    }
  }
  return first;
}

// Replaces pairs of uniform numbers in [0, 1) by pairs of normally distributed numbers.
void MakeNormal(float* values, int64_t pairs, double deviation) {
  at::parallel_for(0, pairs, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const double radius = deviation * std::sqrt(-2.0 * std::log(1.0 - values[2 * i]));
      const double angle = 2.0 * std::numbers::pi * values[2 * i + 1];
      values[2 * i] = static_cast<float>(radius * std::cos(angle));
      values[2 * i + 1] = static_cast<float>(radius * std::sin(angle));
    }
  });
}

// The initial value at index i, from a uniform number u in [0, 1).
double ValueOf(const FirstValues& first, double u, int64_t i) {
  switch (first.kind) {
    case Kind::kUniform:
      return first.a * (2.0 * u - 1.0);
    case Kind::kLogRate:  // 1 - u is never 0
      return std::log(first.a + (first.b - first.a) * (1.0 - u));
    case Kind::kLogCount:
      return std::log(static_cast<double>(i + 1));
    case Kind::kStep: {
      const double low = std::log(first.a), high = std::log(first.b);
      const double step = std::max(std::exp(low + (high - low) * u), first.floor);
      return step + std::log(-std::expm1(-step));
    }
    default:
      return first.a;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<FreshWeights>> FreshWeights::Create(const ModelConfig& config,
                                                                   const std::string& file,
                                                                   uint64_t seed) {
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonObject(config.json, file));
  ASSIGN_OR_RETURN(const Numbers numbers,
                   ReadNumbers(JsonFields(json, file), config.family->fresh));
  std::unique_ptr<FreshWeights> fresh(new FreshWeights(seed));
  const std::map<std::string, FirstValues> first = FirstValuesOf(config, numbers);
  for (const WeightShape& wanted : WantedWeights(config)) {
    fresh->weights_[wanted.name] = {
        .file = file, .shape = wanted.shape, .dtype = "F32", .unreadable = ""};
    fresh->first_[wanted.name] = first.at(wanted.name);
  }
  return fresh;
}

absl::StatusOr<at::Tensor> FreshWeights::Read(const std::string& name) const {
  const auto found = weights_.find(name);
  if (found == weights_.end()) return absl::NotFoundError(absl::StrCat("no tensor '", name, "'"));
  const std::vector<int64_t>& shape = found->second.shape;
  const FirstValues& first = first_.at(name);
  if (first.kind == Kind::kConstant) return at::full(shape, first.a, at::kFloat);
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  const at::Tensor drawn = kernels::InitialUniform(seed_, name, {count + count % 2});
  float* const value = drawn.mutable_data_ptr<float>();
  if (first.kind == Kind::kNormal) {
    MakeNormal(value, (count + 1) / 2, first.a);
  } else {
    for (int64_t i = 0; i < count; ++i) value[i] = static_cast<float>(ValueOf(first, value[i], i));
  }
  const at::Tensor values = drawn.narrow(0, 0, count).view(shape);
  if (first.zero_row >= 0 && first.zero_row < shape.front())
    values.select(0, first.zero_row).zero_();
  return values;
}

}  // namespace moonring::model
