// The order of mixed data sets, and of rows drawn from one, equals that of datasets and numpy
// (tests/golden/mix).
#include "data/mixing/mixer.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/mixing/numpy_random.h"
#include "data/mixing/row_sampler.h"
#include "tests/testing/runfiles.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using ::moonring::testing::ReadRunfile;
using ::moonring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Order = std::vector<std::vector<int64_t>>;

nlohmann::json Golden() {
  return nlohmann::json::parse(ReadRunfile("tests/golden/mix/golden.json"));
}

absl::StatusOr<Order> Mix(const std::vector<int64_t>& rows, const MixOptions& options,
                          int64_t seed = 42) {
  const auto mixed = MixRows(rows, options, seed);
  if (!mixed.ok()) return mixed.status();
  Order order;
  for (const MixedRow& at : *mixed) order.push_back({at.dataset, at.row});
  return order;
}

TEST(MixerTest, OrdersRowsAsDatasetsDoes) {
  const nlohmann::json golden = Golden();
  ASSERT_EQ(golden["mixes"].size(), 27);
  for (const nlohmann::json& mix : golden["mixes"]) {
    ASSERT_OK_AND_ASSIGN(const MixStrategy strategy,
                         ParseMixStrategy(mix["strategy"].get<std::string>()));
    MixOptions options{.strategy = strategy};
    if (!mix["probabilities"].is_null())
      options.probabilities = mix["probabilities"].get<std::vector<double>>();
    ASSERT_OK_AND_ASSIGN(const Order order, Mix(mix["rows"], options, mix["seed"]));
    EXPECT_EQ(order, mix["order"].get<Order>())
        << mix["strategy"] << mix["rows"] << mix["probabilities"];
  }
}

TEST(MixerTest, Concatenates) {
  ASSERT_OK_AND_ASSIGN(const Order order, Mix({2, 1}, {}));
  EXPECT_THAT(order, ElementsAre(ElementsAre(0, 0), ElementsAre(0, 1), ElementsAre(1, 0)));
}

TEST(MixerTest, RefusesInvalidMixtures) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const auto error = [](MixStrategy strategy, std::vector<double> probabilities,
                        int64_t seed = 42) {
    return Mix({3, 4}, {.strategy = strategy, .probabilities = std::move(probabilities)}, seed)
        .status();
  };
  EXPECT_THAT(error(MixStrategy::kConcat, {0.5, 0.5}),
              StatusIs(invalid, HasSubstr("is for a mix_strategy that interleaves")));
  EXPECT_THAT(error(MixStrategy::kInterleaveUnder, {1}),
              StatusIs(invalid, "interleave_probs has 1 numbers, and there are 2 data sets"));
  EXPECT_THAT(error(MixStrategy::kInterleaveUnder, {1.5, -0.5}),
              StatusIs(invalid, "interleave_probs must be 0 or more, got -0.5"));
  EXPECT_THAT(error(MixStrategy::kInterleaveUnder, {0.5, std::nan("")}),
              StatusIs(invalid, HasSubstr("must be 0 or more, got nan")));
  EXPECT_THAT(error(MixStrategy::kInterleaveUnder, {0.5, 0.4}),
              StatusIs(invalid, "interleave_probs must add up to 1, and 0.5 + 0.4 is 0.9"));
  EXPECT_THAT(error(MixStrategy::kInterleaveUnder, {0.5, 0.5}, -1),
              StatusIs(invalid, HasSubstr("seed must be 0 or more")));
  EXPECT_THAT(error(MixStrategy::kInterleaveOver, {1, 0}),
              StatusIs(invalid, HasSubstr("a data set of probability 0 is never exhausted")));
  EXPECT_THAT(error(MixStrategy::kInterleaveOnce, {1, 0}),
              StatusIs(invalid, HasSubstr("a data set of probability 0 is never exhausted")));
  EXPECT_EQ(
      Mix({3, 4}, {.strategy = MixStrategy::kInterleaveUnder, .probabilities = {1, 0}})->size(), 3);
  EXPECT_THAT(Mix({3, 0}, {.strategy = MixStrategy::kInterleaveUnder}).status(),
              StatusIs(invalid, "an empty data set cannot be mixed"));
  EXPECT_THAT(ParseMixStrategy("interleave").status(),
              StatusIs(invalid, HasSubstr("mix_strategy must be concat, interleave_under")));
}

TEST(RowSamplerTest, DrawsAsNumpyDoes) {
  const nlohmann::json golden = Golden();
  for (const nlohmann::json& sample : golden["samples"]) {
    NumpyLegacyRandom random(sample["seed"].get<uint32_t>());
    for (const nlohmann::json& draw : sample["draws"]) {
      EXPECT_EQ(SampleRows(draw["rows"], draw["wanted"], random),
                draw["drawn"].get<std::vector<int64_t>>())
          << sample["seed"] << draw["rows"];
    }
  }
}

}  // namespace
}  // namespace moonring::data
