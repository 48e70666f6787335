#ifndef MOONRING_TESTS_TESTING_GRADIENT_SKETCH_H_
#define MOONRING_TESTS_TESTING_GRADIENT_SKETCH_H_

// The distance of a gradient from one that a golden file stores as a sketch
// (tests/golden/sketch.py): {"shape": [...], "norm": ||golden||, "projections": [...]}.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "gtest/gtest.h"

namespace moonring::testing {

struct NamedGradient {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<double> values;
};

// Projections of the gradient: sums of its values with random signs that depend on its name only.
std::vector<double> Projections(const NamedGradient& gradient);

// An estimate of ||gradient - golden|| / ||golden||, with a standard deviation of 18 %. Where the
// golden gradient is all zero: 0 if `gradient` is zero too, else infinity. NaN if any element is
// NaN.
double SketchedErrorOf(const NamedGradient& gradient, const nlohmann::json& golden);

// Succeeds if the shapes agree and SketchedErrorOf(gradient, golden) <= bound; fails on NaN.
::testing::AssertionResult SketchedError(const NamedGradient& gradient,
                                         const nlohmann::json& golden, double bound);

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_GRADIENT_SKETCH_H_
