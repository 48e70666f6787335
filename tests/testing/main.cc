// Runs some of the tests that a folder's program has:
//   tests --source=tests/comm/layout_test.cc [--tier=fast --full=PATTERNS] [GoogleTest's options]
// Those of one source; of these the full tier's, which are named by PATTERNS (A.*:*.b), or the fast
// tier's, all others.

#include <fnmatch.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

struct Choice {
  std::string source;             // empty: of any
  std::string tier;               // fast, full; empty: any
  std::vector<std::string> full;  // patterns of "Suite.Case"
};

bool IsChosen(const testing::TestInfo& test, const Choice& choice) {
  absl::string_view file = test.file();
  // The compiler says "./tests/..." where a unit includes the source (together.bzl).
  absl::ConsumePrefix(&file, "./");
  if (!choice.source.empty() && file != choice.source) return false;
  if (choice.tier.empty()) return true;
  const std::string name = absl::StrCat(test.test_suite_name(), ".", test.name());
  bool is_full = false;
  for (const std::string& pattern : choice.full) {
    is_full = is_full || fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  }
  return is_full == (choice.tier == "full");
}

// Excludes what is not chosen by GoogleTest's own filter. Returns how many tests are chosen.
int Apply(const Choice& choice) {
  std::string others;
  int chosen = 0;
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  for (int i = 0; i < tests.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *tests.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      if (IsChosen(test, choice)) {
        ++chosen;
      } else {
        absl::StrAppend(&others, ":", suite.name(), ".", test.name());
      }
    }
  }
  std::string& filter = testing::GTEST_FLAG(filter);
  if (!others.empty()) {
    const bool has_exclusions = absl::StrContains(filter, "-");
    absl::StrAppend(&filter, has_exclusions ? others : absl::StrCat("-", others.substr(1)));
  }
  return chosen;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  Choice choice;
  for (int i = 1; i < argc; ++i) {
    absl::string_view option = argv[i];
    if (absl::ConsumePrefix(&option, "--source=")) {
      choice.source = std::string(option);
    } else if (absl::ConsumePrefix(&option, "--tier=")) {
      choice.tier = option == "any" ? "" : std::string(option);
    } else if (absl::ConsumePrefix(&option, "--full=")) {
      choice.full = absl::StrSplit(option, ':');
    } else {
      std::fprintf(stderr, "tests: unknown option \"%s\"; --source, --tier, --full, GoogleTest's\n",
                   argv[i]);
      return 2;
    }
  }
  if (Apply(choice) == 0) {
    std::fprintf(stderr, "tests: no test of %s is of the tier \"%s\"\n", choice.source.c_str(),
                 choice.tier.c_str());
    return 2;
  }
  return RUN_ALL_TESTS();
}
