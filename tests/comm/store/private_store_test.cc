#include "comm/store/private_store.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "base/status/torch_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace moonring::comm {
namespace {

using ::moonring::testing::StatusIs;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

class PrivateStoreTest : public ::testing::Test {
 protected:
  PrivateStoreTest() {
    std::vector<int> served;
    for (int rank = 1; rank < 4; ++rank) {
      int ends[2];
      MakeSocketPair(ends);
      served.push_back(ends[0]);
      others_.push_back(c10::make_intrusive<SocketStore>(ends[1]));
    }
    first_ = c10::make_intrusive<ServedStore>(served);
  }

  c10::intrusive_ptr<c10d::Store> first_;                // rank 0's
  std::vector<c10::intrusive_ptr<c10d::Store>> others_;  // ranks 1 to 3
};

TEST_F(PrivateStoreTest, IsOneStoreForAll) {
  first_->set("a", "1");
  EXPECT_EQ(others_[0]->get_to_str("a"), "1");
  others_[1]->set("b", std::string("two\0parts", 9));
  EXPECT_EQ(others_[2]->get_to_str("b"), std::string("two\0parts", 9));
  EXPECT_EQ(first_->get_to_str("b"), std::string("two\0parts", 9));
  others_[1]->set("empty", "");
  EXPECT_EQ(others_[0]->get_to_str("empty"), "");
  EXPECT_EQ(others_[0]->add("n", 2), 2);
  EXPECT_EQ(first_->add("n", -3), -1);
  EXPECT_EQ(others_[1]->compareSet("c", "", "x"), "x");
  EXPECT_EQ(others_[2]->compareSet("c", "y", "z"), "x");
  EXPECT_EQ(others_[2]->compareSet("c", "x", "z"), "z");
  EXPECT_TRUE(others_[0]->check({"a", "b"}));
  EXPECT_FALSE(others_[0]->check({"a", "none"}));
  EXPECT_EQ(others_[0]->getNumKeys(), 5);
  EXPECT_TRUE(others_[0]->deleteKey("a"));
  EXPECT_FALSE(first_->check({"a"}));
}

TEST_F(PrivateStoreTest, HoldsWhatNoSocketTakesAtOnce) {
  std::string large(8 << 20, 'x');
  large.back() = 'y';
  others_[0]->set("large", large);
  EXPECT_EQ(others_[1]->get_to_str("large"), large);
}

TEST_F(PrivateStoreTest, WaitsForAKey) {
  std::thread later([this] {
    absl::SleepFor(absl::Milliseconds(50));
    others_[1]->set("late", "1");
  });
  EXPECT_EQ(others_[0]->get_to_str("late"), "1");
  later.join();
  EXPECT_THAT(base::TryTorch([&] { others_[0]->wait({"never"}, milliseconds(20)); }),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("nobody has set 'never'")));
}

TEST_F(PrivateStoreTest, AClonesCallsDoNotWaitForTheOthers) {
  const auto clone = others_[0]->clone();
  std::thread waits([this] { others_[0]->get("late"); });
  clone->set("x", "1");
  EXPECT_EQ(clone->clone()->get_to_str("x"), "1");
  clone->set("late", "1");
  waits.join();
}

// If rank 0 has no free file descriptor for a socket that is sent to it, the kernel drops the
// socket silently; the error then names this cause.
TEST_F(PrivateStoreTest, SaysThatRank0HasNoDescriptorForAClone) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int first = open("/dev/null", O_RDONLY), second = open("/dev/null", O_RDONLY);
  close(first);
  close(second);
  // The limit allows only the two descriptors that the other side opens.
  const rlimit few{static_cast<rlim_t>(second) + 1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const absl::Status cloned = base::TryTorch([&] { others_[0]->clone(); });
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(std::string(cloned.message()), HasSubstr("rank 0 has no descriptor left"));
  others_[0]->clone()->set("a", "1");  // the store still works
  EXPECT_EQ(first_->get_to_str("a"), "1");
}

TEST_F(PrivateStoreTest, TheOthersAreThereWhereOneEnds) {
  others_[0].reset();
  others_[1]->set("a", "1");
  EXPECT_EQ(others_[2]->get_to_str("a"), "1");
}

TEST_F(PrivateStoreTest, ReportsThatRank0HasEnded) {
  first_.reset();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(base::TryTorch([&] { others_[0]->set("a", "1"); }),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has ended")));
  }
}

}  // namespace
}  // namespace moonring::comm
