// Order, errors, states and end of prefetched items. Also run with ThreadSanitizer (--config=tsan).
#include "data/pipeline/prefetcher.h"

#include <atomic>
#include <chrono>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/numbers.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

// A source of 0, 1, ...; at `end` the sequence ends, or an error status or an exception occurs.
class Counting final : public Source<std::unique_ptr<int>> {
 public:
  enum class Ending { kNone, kStatus, kException };
  explicit Counting(int end, Ending ending = Ending::kNone, std::atomic<int>* made = nullptr)
      : end_(end), ending_(ending), made_(made) {}

  absl::StatusOr<std::optional<std::unique_ptr<int>>> Next() override {
    if (made_ != nullptr) made_->store(next_ + 1);
    if (next_ < end_) return std::make_unique<int>(next_++);
    if (ending_ == Ending::kStatus) return absl::UnavailableError("the disk is gone");
    if (ending_ == Ending::kException) throw std::runtime_error("thrown on the thread");
    return std::nullopt;
  }
  std::string SaveState() const override { return std::to_string(next_); }
  absl::Status LoadState(absl::string_view state) override {
    int next = 0;
    if (!absl::SimpleAtoi(state, &next)) return absl::InvalidArgumentError("not a number");
    next_ = next;
    return absl::OkStatus();
  }

 private:
  int next_ = 0;
  const int end_;
  const Ending ending_;
  std::atomic<int>* const made_;
};

using Counter = Prefetcher<std::unique_ptr<int>>;

TEST(PrefetcherTest, HandsOutAllInOrderThenEnds) {
  for (const int depth : {1, 2, 7, 2000}) {
    Counter prefetcher(std::make_unique<Counting>(1000), depth);
    for (int i = 0; i < 1000; ++i) {
      EXPECT_EQ(prefetcher.SaveState(), std::to_string(i));
      ASSERT_OK_AND_ASSIGN(const std::optional<std::unique_ptr<int>> item, prefetcher.Next());
      ASSERT_TRUE(item.has_value());
      ASSERT_EQ(**item, i);
    }
    for (int again = 0; again < 3; ++again) EXPECT_FALSE((*prefetcher.Next()).has_value());
    EXPECT_EQ(prefetcher.SaveState(), "1000");
  }
}

TEST(PrefetcherTest, KeepsNoMoreThanItsDepth) {
  std::atomic<int> made = 0;
  Counter prefetcher(std::make_unique<Counting>(100, Counting::Ending::kNone, &made), 3);
  EXPECT_EQ(made, 0);  // nothing is prepared before the first Next()
  EXPECT_EQ(**(*prefetcher.Next()), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(made, 4);  // one returned, three ready
}

TEST(PrefetcherTest, CarriesErrorsInTheirPlace) {
  Counter status(std::make_unique<Counting>(2, Counting::Ending::kStatus), 5);
  Counter exception(std::make_unique<Counting>(2, Counting::Ending::kException), 5);
  for (Counter* prefetcher : {&status, &exception}) {
    EXPECT_EQ(**(*prefetcher->Next()), 0);
    EXPECT_EQ(**(*prefetcher->Next()), 1);
  }
  for (int again = 0; again < 3; ++again) {
    EXPECT_THAT(status.Next(), StatusIs(absl::StatusCode::kUnavailable, "the disk is gone"));
    EXPECT_THAT(exception.Next(),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("thrown on the thread")));
  }
  EXPECT_EQ(status.SaveState(), "2");
}

TEST(PrefetcherTest, ResumesWhereTheConsumerStood) {
  Counter prefetcher(std::make_unique<Counting>(100), 4);
  for (int i = 0; i < 10; ++i) prefetcher.Next().IgnoreError();
  const std::string state = prefetcher.SaveState();
  for (int i = 0; i < 10; ++i) prefetcher.Next().IgnoreError();
  ASSERT_OK(prefetcher.LoadState(state));
  EXPECT_EQ(**(*prefetcher.Next()), 10);
  EXPECT_THAT(prefetcher.LoadState("nonsense"),
              StatusIs(absl::StatusCode::kInvalidArgument, "not a number"));
  EXPECT_EQ(**(*prefetcher.Next()), 11);  // a rejected state changes nothing
  ASSERT_OK(prefetcher.LoadState("99"));
  EXPECT_EQ(**(*prefetcher.Next()), 99);
  EXPECT_FALSE((*prefetcher.Next()).has_value());
  ASSERT_OK(prefetcher.LoadState("0"));  // also after the end
  EXPECT_EQ(**(*prefetcher.Next()), 0);
}

TEST(PrefetcherTest, ClosesAtAnyMoment) {
  for (int taken = 0; taken < 8; ++taken) {
    for (const bool close : {false, true}) {
      Counter prefetcher(std::make_unique<Counting>(5), 2);
      for (int i = 0; i < taken; ++i) prefetcher.Next().IgnoreError();
      if (!close) continue;  // the destructor closes it
      prefetcher.Close();
      prefetcher.Close();
      EXPECT_THAT(prefetcher.Next(),
                  StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("closed")));
      EXPECT_THAT(prefetcher.LoadState("0"),
                  StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("closed")));
    }
  }
}

}  // namespace
}  // namespace moonring::data
