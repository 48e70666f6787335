#ifndef MOONRING_TESTS_MODEL_GOLDEN_FAMILIES_H_
#define MOONRING_TESTS_MODEL_GOLDEN_FAMILIES_H_

// The families whose numbers their peers have given: folders of tests/golden/families with a
// golden.json. A new one is tested by being there.

#include <string>
#include <vector>

namespace moonring::testing {

inline constexpr char kGoldenFamilies[] = "tests/golden/families/";

// Their names, sorted.
std::vector<std::string> GoldenFamilies();

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_MODEL_GOLDEN_FAMILIES_H_
