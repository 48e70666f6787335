// Runs a selection of the tests that are linked into a folder's test program:
//   tests --source=tests/comm/layout_test.cc [--tier=fast|full --fast=PATTERNS|--full=PATTERNS]
//         [GoogleTest's options]
// The selection is the tests of one source file, and of these the tests of one tier. PATTERNS
// (A.*:*/B.c/!(x|y)) list the tests of one tier; all others belong to the other tier.

#include <fnmatch.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

struct Choice {
  std::string source;              // empty: of any
  std::string tier;                // fast, full; empty: any
  std::string named;               // the tier that the patterns list
  std::vector<std::string> cases;  // patterns of "Suite.Case"
};

std::string NameOf(const testing::TestInfo& test) {
  return absl::StrCat(test.test_suite_name(), ".", test.name());
}

bool MatchesAny(const std::string& name, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    if (fnmatch(pattern.c_str(), name.c_str(), FNM_EXTMATCH) == 0) return true;
  }
  return false;
}

bool IsOfSource(const testing::TestInfo& test, const Choice& choice) {
  absl::string_view file = test.file();
  // If a generated file includes the source (together.bzl), the compiler reports the path as
  // "./tests/...".
  absl::ConsumePrefix(&file, "./");
  return choice.source.empty() || file == choice.source;
}

bool IsChosen(const testing::TestInfo& test, const Choice& choice) {
  if (!IsOfSource(test, choice)) return false;
  if (choice.tier.empty()) return true;
  return MatchesAny(NameOf(test), choice.cases) == (choice.tier == choice.named);
}

// Returns whether GoogleTest's filter selects a test: patterns to include, then, after a hyphen,
// patterns to exclude.
bool PassesFilter(const std::string& name, const std::string& filter) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(filter, absl::MaxSplits('-', 1));
  return (parts.first.empty() || MatchesAny(name, absl::StrSplit(parts.first, ':'))) &&
         !MatchesAny(name, absl::StrSplit(parts.second, ':'));
}

std::vector<const testing::TestSuite*> AllSuites() {
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  std::vector<const testing::TestSuite*> suites;
  for (int i = 0; i < tests.total_test_suite_count(); ++i) suites.push_back(tests.GetTestSuite(i));
  return suites;
}

// Returns the first pattern that matches no test of the source; empty if every pattern matches one.
std::string IdlePattern(const Choice& choice) {
  for (const std::string& pattern : choice.cases) {
    bool is_idle = true;
    for (const testing::TestSuite* suite : AllSuites()) {
      for (int i = 0; i < suite->total_test_count(); ++i) {
        const testing::TestInfo& test = *suite->GetTestInfo(i);
        if (IsOfSource(test, choice) && MatchesAny(NameOf(test), {pattern})) is_idle = false;
      }
    }
    if (is_idle) return pattern;
  }
  return "";
}

// Restricts GoogleTest's filter to the chosen tests. A suite that is chosen as a whole becomes one
// pattern, so that the filter that GoogleTest prints stays short. Returns the number of chosen
// tests, regardless of the filter that was set before.
int Apply(const Choice& choice) {
  std::string& filter = testing::GTEST_FLAG(filter);
  std::vector<std::string> chosen;
  int count = 0;
  for (const testing::TestSuite* suite : AllSuites()) {
    std::vector<std::string> names;
    for (int i = 0; i < suite->total_test_count(); ++i) {
      const testing::TestInfo& test = *suite->GetTestInfo(i);
      if (!IsChosen(test, choice)) continue;
      ++count;
      if (PassesFilter(NameOf(test), filter)) names.push_back(NameOf(test));
    }
    if (static_cast<int>(names.size()) == suite->total_test_count()) {
      names = {absl::StrCat(suite->name(), ".*")};
    }
    chosen.insert(chosen.end(), names.begin(), names.end());
  }
  filter = chosen.empty() ? "-*" : absl::StrJoin(chosen, ":");
  return count;
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
    } else if (absl::ConsumePrefix(&option, "--fast=")) {
      choice.named = "fast";
      choice.cases = absl::StrSplit(option, ':');
    } else if (absl::ConsumePrefix(&option, "--full=")) {
      choice.named = "full";
      choice.cases = absl::StrSplit(option, ':');
    } else {
      std::fprintf(stderr,
                   "tests: unknown option \"%s\"; --source, --tier, --fast, --full, GoogleTest's\n",
                   argv[i]);
      return 2;
    }
  }
  const std::string idle = IdlePattern(choice);
  if (!idle.empty()) {
    std::fprintf(stderr, "tests: --%s: \"%s\" names no test of %s\n", choice.named.c_str(),
                 idle.c_str(), choice.source.c_str());
    return 2;
  }
  if (Apply(choice) == 0) {
    std::fprintf(stderr, "tests: no test of %s is of the tier \"%s\"\n", choice.source.c_str(),
                 choice.tier.c_str());
    return 2;
  }
  return RUN_ALL_TESTS();
}
