// When a report warns about cutoff_len. (dataset_test.cc tests what it counts.)

#include "data/dataset_report.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonring::data {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kWarning[] = "cutoff_len leaves almost nothing to train on";

// A report of sixty rows, five of which are skipped, packed into twelve examples.
DatasetReport Packed(int64_t starved) {
  DatasetReport report{.rows = 60, .examples = 12, .truncated = starved, .starved = starved};
  for (int row = 0; row < 2; ++row) CountRow("no 'output'", "d.json:1 (row 1)", report.skipped);
  for (int row = 0; row < 3; ++row) CountRow("no 'input'", "d.json:3 (row 3)", report.skipped);
  return report;
}

TEST(DatasetReportTest, WarnsIfMostRowsAreTruncatedToAlmostNothing) {
  EXPECT_THAT(Packed(27).Text(), Not(HasSubstr(kWarning)));
  EXPECT_EQ(Packed(27).CutWarning(), std::nullopt);
  const std::string warning = Packed(28).CutWarning().value();
  EXPECT_THAT(warning, StartsWith(std::string(kWarning) + ": 28 of 55 rows keep less"));
  EXPECT_THAT(Packed(28).Text(), HasSubstr("\n" + warning + "\n"));
}

}  // namespace
}  // namespace moonring::data
