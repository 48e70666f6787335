// Which waits of ranks are a standstill, on paper.

#include "comm/standstill.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonring::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A mesh of 4 ranks: the world, the sp groups {0, 1} and {2, 3}, the dp groups {0, 2} and {1, 3}.
const std::vector<int> kWorld = {0, 1, 2, 3};

RankWait In(const std::string& group, std::vector<int> ranks, int64_t number,
            std::map<std::string, int64_t> made = {}) {
  if (number > 0) made[group] = number;
  return {.call = WaitingCall{.turn = 1,
                              .group = group,
                              .call = "call " + group,
                              .number = number,
                              .ranks = std::move(ranks),
                              .made = std::move(made)}};
}

const RankWait kComputes, kHasLeft = {.left = true};

TEST(Standstill, ALateRankIsNone) {
  // Three ranks wait for the fourth, in one call, or in different ones.
  const RankWait world = In("0 world", kWorld, 1);
  EXPECT_FALSE(FindStandstill({world, world, world, kComputes}).has_value());
  EXPECT_FALSE(
      FindStandstill({In("1 sp", {0, 1}, 1), In("4 dp", {1, 3}, 1), world, kComputes}).has_value());
  // All have made the call, and rank 0 still completes it.
  EXPECT_FALSE(FindStandstill({In("0 world", kWorld, 5), kComputes, kComputes, kComputes}));
  EXPECT_FALSE(FindStandstill({In("1 sp", {0, 1}, 5), In("0 world", kWorld, 9, {{"1 sp", 5}}),
                               kComputes, kComputes}));
  // Calls that are not announced: it is not known whom they wait for.
  EXPECT_FALSE(FindStandstill({world, In("1 sp", {0, 1}, 0), kComputes, kComputes}));
  EXPECT_FALSE(FindStandstill(std::vector<RankWait>(4, In("0 world", kWorld, 0))));
  // Ranks 2 and 3 exchange data, slowly, and the others wait for them.
  const RankWait sends = In("2 sp", {2, 3}, 0);
  EXPECT_FALSE(FindStandstill({world, world, sends, sends}).has_value());
  EXPECT_FALSE(FindStandstill({kHasLeft, kComputes, In("2 sp", {2, 3}, 1), kComputes}));
}

TEST(Standstill, ACycleIsCertain) {
  // Rank 0 has made one call on the sp group more than rank 1, which is ahead on the world.
  const std::optional<Standstill> two =
      FindStandstill({In("1 sp", {0, 1}, 2), In("0 world", kWorld, 7, {{"1 sp", 1}}), kComputes,
                      kComputes});
  ASSERT_TRUE(two.has_value());
  EXPECT_TRUE(two->certain);
  EXPECT_THAT(two->ranks, ElementsAre(0, 1));
  EXPECT_EQ(two->cause,
            "rank 0 called call 1 sp on group 'sp', rank 1 called call 0 world on group 'world': "
            "all ranks of a group must make the same calls in the same order");
  // Around all groups: 0 waits for 1, 1 for 3, 3 for 2, 2 for 0.
  const std::optional<Standstill> four =
      FindStandstill({In("1 sp", {0, 1}, 1), In("4 dp", {1, 3}, 1), In("3 dp", {0, 2}, 1),
                      In("2 sp", {2, 3}, 1)});
  ASSERT_TRUE(four.has_value());
  EXPECT_TRUE(four->certain);
  EXPECT_THAT(four->ranks, ElementsAre(0, 1, 2, 3));
}

TEST(Standstill, ARankThatHasLeftIsCertain) {
  const std::optional<Standstill> found =
      FindStandstill({kHasLeft, In("1 sp", {0, 1}, 3), kComputes, kComputes});
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->certain);
  EXPECT_THAT(found->cause,
              HasSubstr("rank 0 has ended its script, rank 1 called call 1 sp on group 'sp'"));
}

TEST(Standstill, OtherCallsAreOnlyLikely) {
  const RankWait world = In("0 world", kWorld, 1), engine = In("0 world", kWorld, 0);
  const std::optional<Standstill> found = FindStandstill({engine, world, engine, world});
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->certain);
  EXPECT_THAT(found->ranks, ElementsAre(0, 1));
}

TEST(Standstill, ACallSurvivesTheStore) {
  const WaitingCall call = *In("12 sp of dp rank 3", {4, 5}, 7, {{"0 world", 12}}).call;
  const std::optional<WaitingCall> read = WaitingCall::FromText(call.Text());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->Text(), call.Text());
  EXPECT_EQ(read->made, call.made);
  EXPECT_EQ(read->ranks, call.ranks);
  EXPECT_EQ(read->number, 7);
  for (const char* text : {"", "x", "\x1e\x1e\x1e\x1e\x1e", "1\x1eg\x1e" "c\x1e" "2\x1e" "a,b\x1e"})
    EXPECT_FALSE(WaitingCall::FromText(text).has_value()) << text;
}

TEST(Standstill, EqualCallsAreNamedOnce) {
  EXPECT_EQ(DifferentCalls({{0, "a"}, {1, "b"}, {2, "a"}}),
            "ranks 0, 2 called a, rank 1 called b: all ranks of a group must make the same calls "
            "in the same order");
}

}  // namespace
}  // namespace moonring::comm
