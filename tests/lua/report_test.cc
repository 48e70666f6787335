// Runs report_test.lua: the components of a report.

#include <string>

#include "gtest/gtest.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

class Report : public ::testing::TestWithParam<const char*> {};

TEST_P(Report, IsMadeOfWhatFilesHold) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  const ScriptError error = vm.Run(assets->root() + "/tests/lua/report_test.lua",
                                   "@report_test.lua", {GetParam(), ::testing::TempDir()});
  EXPECT_EQ(error.message, "");
}

INSTANTIATE_TEST_SUITE_P(Sections, Report,
                         ::testing::Values("completion_groups", "curve", "curve_extremes",
                                           "growing_file", "rank_times", "run_clock", "run_status",
                                           "share"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace moonring::lua
