// Runs some of the tests that a folder's program has:
//   tests --source=tests/comm/layout_test.cc [--tier=fast|full --fast=PATTERNS|--full=PATTERNS]
//         [GoogleTest's options]
// Those of one source; of these, those of one tier. PATTERNS (A.*:*/B.c/!(x|y)) name the cases of
// one tier; all others are the other's.

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
  std::string named;               // the tier whose cases the patterns name
  std::vector<std::string> cases;  // patterns of "Suite.Case"
};

bool IsOfSource(const testing::TestInfo& test, const Choice& choice) {
  absl::string_view file = test.file();
  // The compiler says "./tests/..." where a unit includes the source (together.bzl).
  absl::ConsumePrefix(&file, "./");
  return choice.source.empty() || file == choice.source;
}

bool Matches(const testing::TestInfo& test, const std::string& pattern) {
  const std::string name = absl::StrCat(test.test_suite_name(), ".", test.name());
  return fnmatch(pattern.c_str(), name.c_str(), FNM_EXTMATCH) == 0;
}

bool IsChosen(const testing::TestInfo& test, const Choice& choice) {
  if (!IsOfSource(test, choice)) return false;
  if (choice.tier.empty()) return true;
  bool is_named = false;
  for (const std::string& pattern : choice.cases) is_named = is_named || Matches(test, pattern);
  return is_named == (choice.tier == choice.named);
}

std::vector<const testing::TestInfo*> AllTests() {
  std::vector<const testing::TestInfo*> all;
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  for (int i = 0; i < tests.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *tests.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) all.push_back(suite.GetTestInfo(j));
  }
  return all;
}

// The first pattern that names no test; empty if there is none.
std::string IdlePattern(const Choice& choice) {
  for (const std::string& pattern : choice.cases) {
    bool is_idle = true;
    for (const testing::TestInfo* test : AllTests()) {
      is_idle = is_idle && !(IsOfSource(*test, choice) && Matches(*test, pattern));
    }
    if (is_idle) return pattern;
  }
  return "";
}

bool MatchesAny(const std::string& name, absl::string_view patterns) {
  for (absl::string_view pattern : absl::StrSplit(patterns, ':')) {
    if (fnmatch(std::string(pattern).c_str(), name.c_str(), 0) == 0) return true;
  }
  return false;
}

// What GoogleTest's filter says: patterns, and behind a hyphen those of what is left out.
bool PassesFilter(const std::string& name, const std::string& filter) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(filter, absl::MaxSplits('-', 1));
  return (parts.first.empty() || MatchesAny(name, parts.first)) && !MatchesAny(name, parts.second);
}

// Leaves in GoogleTest's filter what is chosen: suites where all of their tests are, so that the
// note that it prints stays short. Returns how many tests are chosen, whatever the filter was.
int Apply(const Choice& choice) {
  std::string& filter = testing::GTEST_FLAG(filter);
  std::vector<std::string> chosen;
  int count = 0;
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  for (int i = 0; i < tests.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *tests.GetTestSuite(i);
    std::vector<std::string> names;
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      const std::string name = absl::StrCat(suite.name(), ".", test.name());
      if (!IsChosen(test, choice)) continue;
      ++count;
      if (PassesFilter(name, filter)) names.push_back(name);
    }
    if (static_cast<int>(names.size()) == suite.total_test_count()) {
      names = {absl::StrCat(suite.name(), ".*")};
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
