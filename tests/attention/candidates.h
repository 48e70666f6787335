#ifndef MOONRING_TESTS_ATTENTION_CANDIDATES_H_
#define MOONRING_TESTS_ATTENTION_CANDIDATES_H_

// The strategies that conformance tests accept, each on any number of ranks. A new one is accepted
// by one line in kStrategies.

#include <iosfwd>
#include <string>
#include <vector>

#include "attention/strategy/strategies.h"

namespace moonring::attention {

// A strategy on a number of ranks.
struct Case {
  StrategyOptions strategy;
  int ranks = 1;
  bool bit_exact = false;  // its forward pass, against one rank
};

std::string NameOf(const Case& value);  // a name for gtest
void PrintTo(const Case& value, std::ostream* out);

// The dense strategy on one rank, and every other on all its numbers of ranks.
std::vector<Case> AllCases();

}  // namespace moonring::attention

#endif  // MOONRING_TESTS_ATTENTION_CANDIDATES_H_
