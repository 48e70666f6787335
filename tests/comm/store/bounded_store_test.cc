#include "comm/store/bounded_store.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "base/status/torch_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonring::comm {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// The state of a simulated process that serves a store: running or stopped.
struct Server {
  std::mutex mutex;
  std::condition_variable changed;
  bool stopped = false;
  void Set(bool stop) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      stopped = stop;
    }
    changed.notify_all();
  }
  void Answer() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return !stopped; });
  }
};

constexpr char kRefused[] = "a key that the store refuses";

class Connection : public c10d::HashStore {
 public:
  using c10d::HashStore::wait;
  explicit Connection(std::shared_ptr<Server> server) : server_(std::move(server)) {}
  int64_t add(const std::string& key, int64_t value) override {
    server_->Answer();
    return c10d::HashStore::add(key, value);
  }
  bool check(const std::vector<std::string>& keys) override {
    server_->Answer();
    return c10d::HashStore::check(keys);
  }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    if (keys.front() == kRefused) throw std::runtime_error("the store's own words");
    c10d::HashStore::wait(keys, timeout);
  }

 private:
  const std::shared_ptr<Server> server_;
};

class Bounded : public ::testing::Test {
 protected:
  ~Bounded() override { server_->Set(false); }
  c10::intrusive_ptr<BoundedStore> Open(milliseconds timeout) {
    return c10::make_intrusive<BoundedStore>(
        "rank 0", timeout, [server = server_] { return c10::make_intrusive<Connection>(server); });
  }
  const std::shared_ptr<Server> server_ = std::make_shared<Server>();
};

TEST_F(Bounded, GivesWhatTheStoreGives) {
  const auto store = Open(milliseconds(60000));
  store->set("a", "1");
  EXPECT_EQ(store->get_to_str("a"), "1");
  EXPECT_EQ(store->add("n", 2), 2);
  EXPECT_EQ(store->add("n", 3), 5);
  EXPECT_EQ(store->compareSet("b", "", "x"), "x");
  EXPECT_EQ(store->compareSet("b", "y", "z"), "x");
  EXPECT_TRUE(store->check({"a", "b"}));
  EXPECT_FALSE(store->check({"a", "c"}));
  EXPECT_EQ(store->getNumKeys(), 3);
  EXPECT_TRUE(store->deleteKey("a"));
  EXPECT_FALSE(store->check({"a"}));
  EXPECT_TRUE(store->hasExtendedApi());
  store->multiSet({"c", "d"}, {{1}, {2, 3}});
  store->append("d", {4});
  EXPECT_EQ(store->multiGet({"d", "c"}), (std::vector<std::vector<uint8_t>>{{2, 3, 4}, {1}}));
  const auto other = store->clone();
  other->set("e", "5");
  store->wait({"e"});
  EXPECT_EQ(store->get_to_str("e"), "5");
}

TEST_F(Bounded, HasTheStoresOwnErrors) {
  const auto store = Open(milliseconds(60000));
  EXPECT_EQ(base::TryTorch([&] { store->get(kRefused); }).message(), "the store's own words");
  EXPECT_EQ(store->add("n", 1), 1);
  const absl::Status opened = base::TryTorch([] {
    BoundedStore("rank 0", milliseconds(60000), []() -> c10::intrusive_ptr<c10d::Store> {
      throw std::runtime_error("no such host");
    });
  });
  EXPECT_EQ(opened.message(), "no such host");
}

TEST_F(Bounded, FailsWhileTheServerIsStopped) {
  const auto store = Open(milliseconds(60000));
  store->setTimeout(milliseconds(50));
  server_->Set(true);
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = base::TryTorch([&] { store->check({"a"}); });
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 is stopped or out of reach"))
        << status;
  }
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(base::TryTorch([&] { store->set("a", "1"); })));  // behind the first
  server_->Set(false);
  store->setTimeout(milliseconds(60000));
  while (!base::TryTorch([&] { EXPECT_EQ(store->add("n", 1), 1); }).ok())
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_FALSE(store->check({"a"}));  // given up before it started: never executed
}

TEST_F(Bounded, OfAStoppedServerCanBeLeft) {
  server_->Set(true);
  const absl::Status opened = base::TryTorch([&] {
    BoundedStore("rank 0", milliseconds(10), [server = server_] {
      server->Answer();
      return c10::make_intrusive<Connection>(server);
    });
  });
  EXPECT_TRUE(absl::IsDeadlineExceeded(opened)) << opened;
  const auto store = Open(milliseconds(60000));
  store->setTimeout(milliseconds(10));
  EXPECT_TRUE(absl::IsDeadlineExceeded(base::TryTorch([&] { store->add("n", 1); })));
}

}  // namespace
}  // namespace moonring::comm
