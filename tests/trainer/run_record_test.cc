#include "trainer/reports/run_record.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace moonring::trainer {
namespace {

std::string RecordPath() { return std::string(std::getenv("TEST_TMPDIR")) + "/run_state.json"; }

std::string RecordText() {
  std::ifstream file(RecordPath());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

nlohmann::json RecordContents() { return nlohmann::json::parse(RecordText()); }

TEST(RunRecordTest, BeginsWithTheState) {
  RunRecord record(RecordPath());
  ASSERT_TRUE(record.Write(R"({"a": 1, "reason": "in progress", "state": "running"})").ok());
  EXPECT_EQ(RecordText(),
            "{\n  \"state\": \"running\",\n  \"reason\": \"in progress\",\n  \"a\": 1\n}\n");
  EXPECT_FALSE(record.Write("[1]").ok());
}

TEST(RunRecordTest, RecordsAnEndOnce) {
  RunRecord record(RecordPath());
  EXPECT_TRUE(record.End("failed", "before any contents").ok());
  ASSERT_TRUE(record.Write(R"({"state": "running", "reason": "in progress"})").ok());
  ASSERT_TRUE(record.End("failed", "no such file").ok());
  ASSERT_TRUE(record.End("stopped", "another end").ok());
  EXPECT_EQ(RecordContents()["state"], "failed");
  EXPECT_EQ(RecordContents()["reason"], "no such file");
  EXPECT_EQ(RecordContents()["ended"].get<std::string>().size(), 20u);
}

}  // namespace
}  // namespace moonring::trainer
