#include "comm/store/signed_store.h"

#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "base/status/torch_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace moonring::comm {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

class SignedStoreTest : public ::testing::Test {
 protected:
  c10::intrusive_ptr<SignedStore> With(const std::string& token) {
    return c10::make_intrusive<SignedStore>(open_, Secret(token));
  }
  static absl::Status Get(c10d::Store& store, const std::string& key) {
    return base::TryTorch([&] { store.get_to_str(key); });
  }

  // The underlying store, to which anybody can write.
  const c10::intrusive_ptr<c10d::HashStore> open_ = c10::make_intrusive<c10d::HashStore>();
};

TEST_F(SignedStoreTest, IsAStore) {
  const auto store = With("token"), again = With("token");
  store->set("a", "1");
  EXPECT_EQ(again->get_to_str("a"), "1");
  store->set("empty", "");
  EXPECT_EQ(again->get_to_str("empty"), "");
  EXPECT_EQ(store->compareSet("b", "", "x"), "x");
  EXPECT_EQ(again->compareSet("b", "", "y"), "x");
  EXPECT_EQ(again->compareSet("b", "y", "z"), "x");
  EXPECT_EQ(again->compareSet("b", "x", "z"), "z");
  EXPECT_EQ(store->get_to_str("b"), "z");
  EXPECT_EQ(store->compareSet("none", "x", "z"), "x");
  EXPECT_FALSE(store->check({"none"}));
  EXPECT_EQ(store->add("n", 2), 2);
  EXPECT_EQ(again->add("n", 3), 5);
  EXPECT_EQ(store->get_to_str("n"), "5");
  EXPECT_EQ(store->clone()->get_to_str("a"), "1");
  EXPECT_TRUE(store->deleteKey("a"));
  EXPECT_FALSE(again->check({"a"}));
}

// Counters are correct with concurrent threads: two threads that write the same value know whose
// write succeeded.
TEST_F(SignedStoreTest, CountsFromSeveralThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      const auto store = With("token");
      for (int i = 0; i < 50; ++i) store->add("n", 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(With("token")->get_to_str("n"), "200");
}

TEST_F(SignedStoreTest, RefusesWhatAnotherHasWritten) {
  const auto store = With("token");
  store->set("a", "1");
  store->set("b", "2");
  const std::vector<uint8_t> of_a = open_->get("a");
  const auto refused = [&](const std::string& key) {
    return StatusIs(absl::StatusCode::kPermissionDenied,
                    HasSubstr("'" + key + "' is not signed with this rank's MOONRING_TOKEN"));
  };
  open_->set("b", of_a);  // a validly signed value, but of another key
  EXPECT_THAT(Get(*store, "b"), refused("b"));
  std::vector<uint8_t> changed = of_a;
  changed[0] ^= 1;
  open_->set("a", changed);
  EXPECT_THAT(Get(*store, "a"), refused("a"));
  for (const std::string& words : {std::string(), std::string("1"), std::string(200, ']')}) {
    open_->c10d::Store::set("a", words);
    EXPECT_THAT(Get(*store, "a"), refused("a"));
  }
  With("another token")->set("a", "1");
  EXPECT_THAT(Get(*store, "a"), refused("a"));
  EXPECT_THAT(base::TryTorch([&] { store->compareSet("a", "", "2"); }), refused("a"));
  EXPECT_THAT(base::TryTorch([&] { store->add("a", 1); }), refused("a"));
  store->set("a", "1");
  EXPECT_EQ(store->get_to_str("a"), "1");
}

}  // namespace
}  // namespace moonring::comm
