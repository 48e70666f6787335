#include "trainer/optimizer/zclip.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <vector>

#include <c10/util/Exception.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/status_matchers.h"

namespace moonring::trainer {
namespace {

using testing::StatusIs;

// Clips as the authors' package does, which scales by limit / (norm + 1e-6).
double Clipped(ZClip& clip, double norm) {
  const double limit = clip.Limit(norm);
  return limit < norm ? norm * (limit / (norm + 1e-6)) : norm;
}

TEST(ZClipTest, EqualsTheAuthorsPackage) {
  std::ifstream stream("tests/trainer/golden/zclip.json");
  const nlohmann::json golden = nlohmann::json::parse(stream);
  ZClip clip;
  int spikes = 0;
  for (size_t i = 0; i < golden["norms"].size(); ++i) {
    const double norm = golden["norms"][i], wanted = golden["clipped"][i];
    EXPECT_NEAR(Clipped(clip, norm), wanted, 1e-12 * wanted)
        << "step " << i;  // a dozen roundings of doubles
    spikes += wanted < norm;
  }
  EXPECT_EQ(spikes, 3);  // the spike among the first 25 is only collected
}

TEST(ZClipTest, ResumesFromASavedHistory) {
  std::ifstream stream("tests/trainer/golden/zclip.json");
  const std::vector<double> norms = nlohmann::json::parse(stream)["norms"];
  for (const size_t saved_at : {0u, 10u, 24u, 25u, 60u}) {
    ZClip whole, first, second;
    for (size_t i = 0; i < saved_at; ++i) whole.Limit(norms[i]), first.Limit(norms[i]);
    ASSERT_OK(second.LoadState(first.SaveState()));
    for (size_t i = saved_at; i < norms.size(); ++i)
      EXPECT_EQ(whole.Limit(norms[i]), second.Limit(norms[i])) << saved_at << ", " << i;
  }
}

TEST(ZClipTest, RefusesInvalidHistories) {
  ZClip clip;
  for (const char* text : {"", "{}", "[1]", R"({"first": 3, "mean": 0, "variance": 0})",
                           R"({"first": ["a"], "mean": 0, "variance": 0})"}) {
    EXPECT_THAT(clip.LoadState(text),
                StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("history")))
        << text;
  }
  EXPECT_THROW(clip.Limit(std::numeric_limits<double>::infinity()), c10::Error);
}

}  // namespace
}  // namespace moonring::trainer
