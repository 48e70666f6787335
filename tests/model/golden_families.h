#ifndef MOONRING_TESTS_MODEL_GOLDEN_FAMILIES_H_
#define MOONRING_TESTS_MODEL_GOLDEN_FAMILIES_H_

// The model families with golden numbers from Transformers or another implementation: the folders
// of tests/golden/families that have a golden.json. A new folder is tested automatically.

#include <string>
#include <vector>

namespace moonring::testing {

inline constexpr char kGoldenFamilies[] = "tests/golden/families/";

// Returns the names of these folders, sorted.
std::vector<std::string> GoldenFamilies();

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_MODEL_GOLDEN_FAMILIES_H_
