// Answers and scores of a service's requests: each request gets what it gets alone, whatever runs
// or arrives beside it, on one rank, on two that divide the prompts, and on two that share them.

#include <cmath>
#include <string>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;

class ServeGenerationTest : public Workplace {
 protected:
  json RunScript(const std::string& script, int ranks, int sp, const Words& more) const {
    Words words = OnRanks(ranks);
    words.push_back(Runfile("tests/scripts/" + script));
    words.push_back(Runfile("tests/golden/stages/model"));
    words.push_back(std::to_string(sp));
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = Run(words);
    EXPECT_THAT(result, Succeeds());
    return json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  }

  static void ExpectSame(const json& a, const json& b, double bound, const std::string& place) {
    ASSERT_EQ(a.type_name(), std::string(b.type_name())) << place;
    if (a.is_number()) {
      EXPECT_NEAR(a.get<double>(), b.get<double>(), bound) << place;
    } else if (a.is_structured()) {
      ASSERT_EQ(a.size(), b.size()) << place;
      const json left = a.flatten(), right = b.flatten();
      for (const auto& [key, value] : left.items()) {
        ASSERT_TRUE(right.contains(key)) << place << key;
        if (value.is_structured()) continue;  // an empty list or object
        ExpectSame(value, right.at(key), bound, place + key);
      }
    } else {
      EXPECT_EQ(a, b) << place;
    }
  }
};

TEST_F(ServeGenerationTest, EachRequestGetsWhatItGetsAlone) {
  const json one = RunScript("serve_generation.lua", 1, 1, {"fp64"});
  ASSERT_TRUE(one.is_object());
  ASSERT_GT(one.flatten().size(), 500u);
  ExpectSame(RunScript("serve_generation.lua", 2, 1, {"fp64"}).at("alone"), one.at("alone"), 1e-11,
             "dp");
  ExpectSame(RunScript("serve_generation.lua", 2, 2, {"fp64"}).at("alone"), one.at("alone"), 1e-11,
             "sp");
  // In fp32 the log-probs of sampled tokens are those of a forward but for rounding.
  EXPECT_LT(RunScript("serve_generation.lua", 1, 1, {"fp32"}).at("largest").get<double>(), 1e-5);
}

TEST_F(ServeGenerationTest, TheRouteAsample) {
  const json one = RunScript("serve_asample.lua", 1, 1, {});
  ASSERT_TRUE(one.is_array());
  ASSERT_EQ(one.size(), 16u);
  ExpectSame(RunScript("serve_asample.lua", 2, 2, {}), one, 1e-6, "sp");
}

}  // namespace
}  // namespace moonring::testing
