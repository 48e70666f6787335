#ifndef MOONRING_TESTS_ATTENTION_CANDIDATES_H_
#define MOONRING_TESTS_ATTENTION_CANDIDATES_H_

// The attention strategies that the conformance tests check, each on every number of ranks that the
// strategy supports. To test a new strategy, add one line to kStrategies.

#include <iosfwd>
#include <string>
#include <vector>

#include "attention/strategy/strategies.h"

namespace moonring::attention {

// A strategy and the number of ranks that it runs on.
struct Case {
  StrategyOptions strategy;
  int ranks = 1;
  bool bit_exact = false;  // whether the forward pass is bit-identical to that of one rank
};

std::string NameOf(const Case& value);  // a name for gtest
void PrintTo(const Case& value, std::ostream* out);

// All test cases: dense on one rank, and each other strategy with each of its numbers of ranks.
std::vector<Case> AllCases();

}  // namespace moonring::attention

#endif  // MOONRING_TESTS_ATTENTION_CANDIDATES_H_
