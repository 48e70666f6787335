#ifndef MOONRING_TESTS_ATTENTION_CANDIDATES_H_
#define MOONRING_TESTS_ATTENTION_CANDIDATES_H_

// The attention strategies that the conformance tests check: all names of the table
// (StrategyNames), each on every number of ranks, and further options of some.

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

// The strategies on several ranks, each by one name; without "auto".
std::vector<std::string> NamesOnRanks();

// All test cases: dense on one rank, and each other strategy with each of its numbers of ranks.
std::vector<Case> AllCases();

}  // namespace moonring::attention

#endif  // MOONRING_TESTS_ATTENTION_CANDIDATES_H_
