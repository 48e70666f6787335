#ifndef MOONRING_TESTS_LUA_HTTP_SERVED_H_
#define MOONRING_TESTS_LUA_HTTP_SERVED_H_

// An HttpServer for tests. It answers at once, except requests to a path that begins with /wait,
// which a test answers.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lua/http/server.h"
#include "tests/lua/http/raw_client.h"

namespace moonring::testing {

class Served : public ::testing::Test {
 protected:
  using Request = lua::HttpServer::Request;
  using Response = lua::HttpServer::Response;
  using Options = lua::HttpServer::Options;

  ~Served() override { Stop(); }

  void Stop() const {
    if (server_ != nullptr) server_->Stop();
  }
  void Start(Options options = {}) {
    Stop();
    options.handle = [this](Request request) { Take(std::move(request)); };
    options.vanished = [this](int64_t id) {
      const std::lock_guard<std::mutex> lock(mutex_);
      vanished_.push_back(id);
      changed_.notify_all();
    };
    auto server = lua::HttpServer::Listen(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  // Returns the next request that waits for its answer.
  Request Next() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !waiting_.empty(); });
    Request request = std::move(waiting_.front());
    waiting_.pop_front();
    return request;
  }
  // Returns the next `count` ids of requests whose client has left.
  std::multiset<int64_t> Vanished(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return vanished_.size() >= count; });
    return {vanished_.begin(), vanished_.end()};
  }
  size_t Departures() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return vanished_.size();
  }

  RawAnswer Ask(const std::string& request) const { return RawClient(port()).Ask(request); }

  // The answer to a request that does not wait: "GET /path [name=value;] body".
  static Response Echo(const Request& request) {
    std::string text = absl::StrCat(request.method, " ", request.path, " [");
    for (const auto& [name, value] : request.query) absl::StrAppend(&text, name, "=", value, ";");
    return {.type = "text/plain", .body = absl::StrCat(text, "] ", request.body)};
  }

  lua::HttpServer& server() const { return *server_; }
  int port() const { return server_->port(); }

 private:
  void Take(Request request) {
    if (!absl::StartsWith(request.path, "/wait")) return server_->Reply(request.id, Echo(request));
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(std::move(request));
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> waiting_;
  std::vector<int64_t> vanished_;
  std::unique_ptr<lua::HttpServer> server_;  // the last member: its thread uses the others
};

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_LUA_HTTP_SERVED_H_
