#ifndef MOONRING_TESTS_LUA_WATCHED_H_
#define MOONRING_TESTS_LUA_WATCHED_H_

// `moonring watch` in a folder of its own, with an HTTP client that knows its token.

#include <memory>
#include <regex>
#include <string>
#include <utility>

#include <httplib.h>
#include <nlohmann/json.hpp>

#include "gtest/gtest.h"
#include "tests/scripts/workplace.h"

namespace moonring::testing {

class Watched : public Workplace {
 protected:
  void Start(const Words& paths) {
    watch_ = std::make_unique<Command>(Options(Words{"watch"} + paths));
    ASSERT_TRUE(watch_->WaitForOutput("/?token=")) << watch_->Wait().Describe();
    const std::regex address(R"(watch  http://127\.0\.0\.1:(\d+)/\?token=([0-9a-f]{32})\n)");
    std::smatch found;
    const std::string said = watch_->Output();
    ASSERT_TRUE(std::regex_match(said, found, address)) << said;
    port_ = std::stoi(found[1]);
    token_ = found[2];
    client_ = std::make_unique<httplib::Client>("127.0.0.1", port_);
    client_->set_read_timeout(60);
  }

  std::string With(const std::string& path) const { return path + "?token=" + token_; }

  httplib::Result Get(const std::string& path, const httplib::Headers& headers = {}) {
    return client_->Get(path.c_str(), headers);
  }
  int StatusOf(const std::string& path, const httplib::Headers& headers = {}) {
    const auto result = Get(path, headers);
    return result ? result->status : -1;
  }
  // Returns the answer to a GET with the token; null if the status is not 200.
  nlohmann::json Json(const std::string& path, const std::string& more = "") {
    const auto result = Get(With(path) + more);
    if (!result || result->status != 200) return {};
    return nlohmann::json::parse(result->body);
  }

  std::unique_ptr<Command> watch_;
  int port_ = 0;
  std::string token_;
  std::unique_ptr<httplib::Client> client_;
};

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_LUA_WATCHED_H_
