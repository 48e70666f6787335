#include "tests/testing/gradient_sketch.h"

#include <cmath>
#include <limits>

#include "base/text/fnv1a.h"

namespace moonring::testing {
namespace {

constexpr int kProjections = 16;

uint64_t SplitMix64(uint64_t& state) {
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

std::vector<double> Projections(const NamedGradient& gradient) {
  std::vector<double> sums(kProjections);
  uint64_t state = base::Fnv1a(gradient.name);
  for (const double value : gradient.values) {
    const uint64_t bits = SplitMix64(state);
    for (int k = 0; k < kProjections; ++k) sums[k] += (bits >> k & 1) ? -value : value;
  }
  return sums;
}

double SketchedErrorOf(const NamedGradient& gradient, const nlohmann::json& golden) {
  const auto wanted = golden.at("projections").get<std::vector<double>>();
  const std::vector<double> found = Projections(gradient);
  double squares = 0;
  for (int k = 0; k < kProjections; ++k) squares += std::pow(found[k] - wanted.at(k), 2);
  const double difference = std::sqrt(squares / kProjections), size = golden.at("norm");
  if (size == 0) return difference == 0 ? 0 : difference * std::numeric_limits<double>::infinity();
  return difference / size;
}

::testing::AssertionResult SketchedError(const NamedGradient& gradient,
                                         const nlohmann::json& golden, double bound) {
  if (gradient.shape != golden.at("shape").get<std::vector<int64_t>>())
    return ::testing::AssertionFailure()
           << gradient.name << ": shape " << nlohmann::json(gradient.shape) << " against "
           << golden.at("shape");
  const double error = SketchedErrorOf(gradient, golden);
  if (error <= bound) return ::testing::AssertionSuccess() << "relative error about " << error;
  return ::testing::AssertionFailure()
         << gradient.name << ": relative error about " << error << ", expected at most " << bound;
}

}  // namespace moonring::testing
