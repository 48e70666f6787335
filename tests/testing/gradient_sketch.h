#ifndef MOONRING_TESTS_TESTING_GRADIENT_SKETCH_H_
#define MOONRING_TESTS_TESTING_GRADIENT_SKETCH_H_

// How far a gradient is from one that a golden file keeps as a sketch (tests/golden/sketch.py):
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

// The sums of the values under random signs that depend on the name alone.
std::vector<double> Projections(const NamedGradient& gradient);

// ||gradient - golden|| / ||golden||, estimated: the standard deviation is 18 % of it. Where the
// golden one is all zero: 0 if the gradient is too, else infinity. NaN anywhere gives NaN.
double SketchedErrorOf(const NamedGradient& gradient, const nlohmann::json& golden);

// Success where the shapes agree and SketchedErrorOf(gradient, golden) <= bound; a NaN fails.
::testing::AssertionResult SketchedError(const NamedGradient& gradient,
                                         const nlohmann::json& golden, double bound);

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_GRADIENT_SKETCH_H_
