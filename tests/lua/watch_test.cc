// `moonring watch`: HTTP requests from browsers and from other programs.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include <httplib.h>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scripts/workplace.h"
#include "tests/testing/busy_port.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class WatchTest : public Workplace {
 protected:
  WatchTest() {
    std::filesystem::create_directories(Path("run"));
    Log("");
    Step(1, 2.5);
  }

  void Start() {
    watch_ = std::make_unique<Command>(Options({"watch", "run"}));
    ASSERT_TRUE(watch_->WaitForOutput("\n")) << watch_->Wait().Describe();
    const std::regex address(R"(watch  http://127\.0\.0\.1:(\d+)/\?token=([0-9a-f]{32})\n)");
    std::smatch found;
    const std::string said = watch_->Output();
    ASSERT_TRUE(std::regex_match(said, found, address)) << said;
    port_ = std::stoi(found[1]);
    token_ = found[2];
    client_ = std::make_unique<httplib::Client>("127.0.0.1", port_);
  }

  void Log(const std::string& text) const { Write("run/trainer_log.jsonl", text); }
  void Append(const std::string& text) const {
    std::ofstream(Path("run/trainer_log.jsonl"), std::ios::app) << text;
  }
  void Step(int step, double loss) const {
    Append(
        json{
            {"current_steps", step}, {"total_steps", 9}, {"loss", loss}, {"lr", 0.1}, {"tokens", 1}}
            .dump() +
        "\n");
  }

  httplib::Result Get(const std::string& path, const httplib::Headers& headers = {}) {
    return client_->Get(path.c_str(), headers);
  }
  int StatusOf(const std::string& path, const httplib::Headers& headers = {}) {
    const auto result = Get(path, headers);
    return result ? result->status : -1;
  }
  std::string With(const std::string& path) const { return path + "?token=" + token_; }
  json Losses() {
    const auto result = Get(With("/runs.json"));
    if (!result || result->status != 200) return {};
    return json::parse(result->body)["data"]["runs"][0]["curves"]["loss"]["y"];
  }

  std::unique_ptr<Command> watch_;
  int port_ = 0;
  std::string token_;
  std::unique_ptr<httplib::Client> client_;
};

TEST_F(WatchTest, FollowsARunningRun) {
  Start();
  const auto page = Get(With("/"));
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_EQ(page->get_header_value("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(page->get_header_value("Referrer-Policy"), "no-referrer");
  EXPECT_THAT(page->body, AllOf(HasSubstr("data-live=\"live\""), HasSubstr("connect-src 'self'"),
                                Not(HasSubstr(token_))));
  EXPECT_EQ(Losses(), json({2.5}));
  const auto first = Get(With("/runs.json"));
  const std::string tag = first->get_header_value("ETag");
  EXPECT_EQ(StatusOf(With("/runs.json"), {{"If-None-Match", tag}}), 304);
  Append(R"({"current_steps":2,"total_st)");  // an incomplete line
  EXPECT_EQ(StatusOf(With("/runs.json"), {{"If-None-Match", tag}}), 304);
  Append("eps\":9,\"loss\":1.5,\"lr\":0.1,\"tokens\":2}\n");
  EXPECT_EQ(StatusOf(With("/runs.json"), {{"If-None-Match", tag}}), 200);
  EXPECT_EQ(Losses(), json({2.5, 1.5}));
  // The run resumes from step 1 and repeats step 2. Later, another run begins in the same folder.
  Step(2, 1.25);
  EXPECT_EQ(Losses(), json({2.5, 1.25}));
  Log("");
  Step(1, 4.5);
  EXPECT_EQ(Losses(), json({4.5}));
  // A line that does not belong in a log is reported as long as it exists.
  Log("what\n");
  EXPECT_THAT(json::parse(Get(With("/runs.json"))->body)["error"].get<std::string>(),
              HasSubstr("run/trainer_log.jsonl:1"));
  Log("");
  Step(1, 3.5);
  EXPECT_EQ(Losses(), json({3.5}));
  EXPECT_FALSE(std::filesystem::exists(Path("run/report.html")));
}

TEST_F(WatchTest, RefusesRequestsWithoutTheToken) {
  Start();
  const std::string other = token_[0] == '0' ? "1" : "0";
  EXPECT_EQ(StatusOf("/"), 403);
  EXPECT_EQ(StatusOf("/?token="), 403);
  EXPECT_EQ(StatusOf("/?token=" + other + token_.substr(1)), 403);
  EXPECT_EQ(StatusOf("/?token=" + token_.substr(1)), 403);
  EXPECT_EQ(StatusOf(With("/") + "0"), 403);
  EXPECT_EQ(StatusOf("/runs.json"), 403);
  // A host name that an attacker has redirected to this machine.
  EXPECT_EQ(StatusOf(With("/"), {{"Host", "evil.example"}}), 403);
  EXPECT_EQ(StatusOf(With("/"), {{"Host", "localhost.evil.example:" + std::to_string(port_)}}),
            403);
  EXPECT_EQ(StatusOf(With("/"), {{"Host", ""}}), 403);
  // Allowed: the port of a tunnel, and IPv6's loopback address.
  EXPECT_EQ(StatusOf(With("/"), {{"Host", "localhost:8080"}}), 200);
  EXPECT_EQ(StatusOf(With("/"), {{"Host", "[::1]:8080"}}), 200);
  EXPECT_EQ(StatusOf(With("/"), {{"Host", "localhost:8080"}, {"Origin", "http://localhost:8080"}}),
            200);
  EXPECT_EQ(StatusOf(With("/"), {{"Host", "localhost:8080"}, {"Origin", "http://evil.example"}}),
            403);
  EXPECT_EQ(StatusOf(With("/run/trainer_log.jsonl")), 404);
  EXPECT_EQ(StatusOf(With("/../etc/passwd")), 404);
  const auto posted = client_->Post(With("/").c_str(), "x=1", "text/plain");
  ASSERT_TRUE(posted);
  EXPECT_EQ(posted->status, 405);
  EXPECT_EQ(StatusOf(With("/") + "&more=" + std::string(20000, 'a')), -1);  // closed
  EXPECT_EQ(StatusOf(With("/")), 200);
}

// Silent connections, each of which may occupy one of 32 slots for half a minute, do not block
// others.
TEST_F(WatchTest, SilentConnectionsDoNotBlockIt) {
  Start();
  std::vector<int> silent;
  for (int i = 0; i < 100; ++i) {
    sockaddr_in place = {};
    place.sin_family = AF_INET;
    place.sin_port = htons(static_cast<uint16_t>(port_));
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    silent.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(silent.back(), reinterpret_cast<sockaddr*>(&place), sizeof(place)), 0);
    if (i % 2 == 0) (void)!write(silent.back(), "GET / HT", 8);
  }
  client_->set_read_timeout(10);
  EXPECT_EQ(StatusOf(With("/")), 200);
  EXPECT_EQ(StatusOf(With("/runs.json")), 200);
  for (const int each : silent) close(each);
}

TEST_F(WatchTest, ASignalEndsItWell) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Start();
    EXPECT_EQ(StatusOf(With("/")), 200);
    watch_->Signal(signal);
    const CommandResult result = watch_->Wait();
    EXPECT_THAT(result, Succeeds());
    EXPECT_EQ(result.err, "");
  }
}

TEST_F(WatchTest, SaysWhatIsWrong) {
  const BusyPort busy;
  EXPECT_THAT(Run({"watch", "run", "port=" + busy.port()}),
              FailsWith(1, HasSubstr("port " + busy.port())));
  EXPECT_THAT(Run({"watch"}), FailsWith(2, HasSubstr("usage: moonring watch")));
  EXPECT_THAT(Run({"watch", "nowhere"}), FailsWith(2, HasSubstr("nowhere: no such folder")));
  EXPECT_THAT(Run({"watch", "run", "port=x"}), FailsWith(2, HasSubstr("port: expected a number")));
  EXPECT_THAT(Run({"watch", "run", "port=70000"}),
              FailsWith(2, HasSubstr("port: expected 0 to 65535, got 70000")));
  EXPECT_THAT(Run({"--sandbox", "watch", "run"}),
              FailsWith(2, HasSubstr("--sandbox: no port is opened")));
}

}  // namespace
}  // namespace moonring::testing
