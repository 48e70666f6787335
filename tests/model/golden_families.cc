#include "tests/model/golden_families.h"

#include <algorithm>
#include <filesystem>

namespace moonring::testing {

std::vector<std::string> GoldenFamilies() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldenFamilies)) {
    if (std::filesystem::exists(entry.path() / "golden.json"))
      names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace moonring::testing
