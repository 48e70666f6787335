#include "trainer/reports/run_record.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace moonring::trainer {
namespace {

std::string Path() { return std::string(std::getenv("TEST_TMPDIR")) + "/run_state.json"; }

std::string Text() {
  std::ifstream file(Path());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

nlohmann::json Contents() { return nlohmann::json::parse(Text()); }

TEST(RunRecordTest, BeginsWithTheState) {
  RunRecord record(Path());
  ASSERT_TRUE(record.Write(R"({"a": 1, "reason": "in progress", "state": "running"})").ok());
  EXPECT_EQ(Text(),
            "{\n  \"state\": \"running\",\n  \"reason\": \"in progress\",\n  \"a\": 1\n}\n");
  EXPECT_FALSE(record.Write("[1]").ok());
}

TEST(RunRecordTest, RecordsAnEndOnce) {
  RunRecord record(Path());
  EXPECT_TRUE(record.End("failed", "before any contents").ok());
  ASSERT_TRUE(record.Write(R"({"state": "running", "reason": "in progress"})").ok());
  ASSERT_TRUE(record.End("failed", "no such file").ok());
  ASSERT_TRUE(record.End("stopped", "another end").ok());
  EXPECT_EQ(Contents()["state"], "failed");
  EXPECT_EQ(Contents()["reason"], "no such file");
  EXPECT_EQ(Contents()["ended"].get<std::string>().size(), 20u);
}

}  // namespace
}  // namespace moonring::trainer
