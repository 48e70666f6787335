// Slices of a split select the same rows as the datasets library (tests/golden/mix/make_slices.py).
#include "data/description/split_slices.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/testing/runfiles.h"

namespace moonring::data {
namespace {

using ::moonring::testing::ReadRunfile;

TEST(SplitSlicesTest, TakeTheRowsThatDatasetsTakes) {
  const nlohmann::json golden = nlohmann::json::parse(ReadRunfile("tests/golden/mix/slices.json"));
  ASSERT_EQ(golden["cases"].size(), 200);
  for (const nlohmann::json& each : golden["cases"]) {
    const int64_t n = each["rows"];
    const auto slices = ParseSplit(each["split"].get<std::string>());
    const auto rows = slices.ok()
                          ? SliceRows(slices->empty() ? std::vector<SplitSlice>(1) : *slices, n)
                          : slices.status();
    ASSERT_EQ(rows.ok(), !each["taken"].is_null()) << each << rows.status();
    if (!rows.ok()) continue;
    EXPECT_EQ(*rows, each["taken"].get<std::vector<int64_t>>()) << each["split"] << " of " << n;
  }
}

}  // namespace
}  // namespace moonring::data
