#ifndef MOONRING_TESTS_TESTING_GRADIENT_SKETCH_H_
#define MOONRING_TESTS_TESTING_GRADIENT_SKETCH_H_

// Compares a gradient with one that a golden file stores as a sketch (tests/golden/sketch.py):
// {"shape": [...], "norm": ||golden||, "projections": [...]}.

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

// Returns the gradient's projections: sums of its values with random signs that depend only on its
// name.
std::vector<double> Projections(const NamedGradient& gradient);

// Estimates ||gradient - golden|| / ||golden||, with a standard deviation of 18 %. If the golden
// gradient is all zero: 0 if `gradient` is zero too, else infinity. NaN if any element is NaN.
double SketchedErrorOf(const NamedGradient& gradient, const nlohmann::json& golden);

// Succeeds if the shapes agree and SketchedErrorOf(gradient, golden) <= bound; fails on NaN.
::testing::AssertionResult SketchedError(const NamedGradient& gradient,
                                         const nlohmann::json& golden, double bound);

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_GRADIENT_SKETCH_H_
