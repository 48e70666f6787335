// `moonring watch`: HTTP requests from browsers and from other programs.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lua/watched.h"
#include "tests/testing/busy_port.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class WatchTest : public Watched {
 protected:
  WatchTest() {
    std::filesystem::create_directories(Path("run"));
    Log("");
    Step(1, 2.5);
  }

  void Log(const std::string& text) const { Write("run/trainer_log.jsonl", text); }
  void Append(const std::string& text) const {
    std::ofstream(Path("run/trainer_log.jsonl"), std::ios::app) << text;
  }
  static std::string Line(int step, double loss) {
    const json line = {
        {"current_steps", step}, {"total_steps", 9}, {"loss", loss}, {"lr", 0.1}, {"tokens", 1}};
    return line.dump() + "\n";
  }
  void Step(int step, double loss) const { Append(Line(step, loss)); }

  json Losses() {
    const json data = Json("/runs.json");
    return data.is_null() ? data : data["data"]["runs"][0]["curves"]["loss"]["y"];
  }
  static json Names(const json& runs) {
    json names = json::array();
    for (const json& run : runs) names.push_back(run["name"]);
    return names;
  }
};

TEST_F(WatchTest, FollowsARunningRun) {
  Start({"run"});
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
  Start({"run"});
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

// The folder does not exist at first, and then belongs to a run.
TEST_F(WatchTest, WaitsForARun) {
  Start({"rum"});
  ASSERT_TRUE(watch_->WaitForOutput("waiting"));
  const json first = Json("/runs.json")["data"];
  EXPECT_EQ(first["waiting"], "waiting for a run in rum");
  EXPECT_EQ(first["runs"], json::array());
  EXPECT_THAT(Get(With("/"))->body, HasSubstr("<title>rum - Moonring</title>"));
  std::filesystem::rename(Path("run"), Path("rum"));
  json data;
  do {  // the folder is searched every two seconds
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    data = Json("/runs.json")["data"];
  } while (data["list"].empty());
  EXPECT_EQ(Names(data["runs"]), json({"rum"}));
  EXPECT_EQ(data.count("waiting"), 0);
  watch_->Signal(SIGTERM);
  EXPECT_EQ(watch_->Wait().err,
            "waiting for a run in rum: no such folder yet (did you mean 'run'?)\n");
}

TEST_F(WatchTest, ListsTheRunsOfAFolder) {
  const auto run = [&](const std::string& name, const std::string& began, const json& state) {
    json all = {{"began", "2026-11-" + began + "T10:00:00Z"}, {"reason", "as the test wants"}};
    all.update(state);
    Write("saves/" + name + "/run_state.json", all.dump());
  };
  for (int i = 10; i < 19; ++i) {
    run("old/" + std::to_string(i), std::to_string(i), {{"state", "finished"}});
    Write("saves/old/" + std::to_string(i) + "/trainer_log.jsonl", Line(i, 1.0));
  }
  run("a/lora/sft", "28", {{"state", "stopped"}, {"step", 4}, {"total_steps", 9}});
  run("b", "20", {{"state", "running"}, {"step", 3}});  // nobody holds its lock
  run("b/inner", "29", {{"state", "finished"}});        // inside a run's folder: not searched
  run("too/deep/by/one", "29", {{"state", "finished"}});
  Write("saves/c/training_args.yaml", "stage: sft\n");  // now: it has no run_state.json
  Write("saves/c/trainer_log.jsonl", "what\n");
  Start({"saves"});
  const json answer = Json("/runs.json"), list = answer["data"]["list"];
  EXPECT_EQ(Names(list), json({"c", "a/lora/sft", "b", "old/18", "old/17", "old/16", "old/15",
                               "old/14", "old/13", "old/12", "old/11", "old/10"}));
  EXPECT_EQ(list[0]["stage"], "sft");
  EXPECT_EQ(list[1]["state"], "stopped");
  EXPECT_EQ(list[1]["step"], 4);
  EXPECT_EQ(list[1]["total_steps"], 9);
  EXPECT_EQ(list[1]["began"], "2026-11-28T10:00:00Z");
  EXPECT_EQ(list[2]["state"], "killed");
  EXPECT_EQ(list[3]["state"], "finished");
  EXPECT_EQ(list[3]["step"], 18);  // of the log
  // The newest eight, without the one that cannot be read; what is wrong with it is said.
  EXPECT_EQ(Names(answer["data"]["runs"]),
            json({"a/lora/sft", "b", "old/18", "old/17", "old/16", "old/15", "old/14"}));
  EXPECT_THAT(answer["error"].get<std::string>(), HasSubstr("saves/c/trainer_log.jsonl:1"));
  const std::string shows = "&show=old/10&show=b&show=gone";
  const json shown = Json("/runs.json", shows);
  EXPECT_EQ(Names(shown["data"]["runs"]), json({"old/10", "b"}));
  EXPECT_EQ(shown["error"], json());
  const std::string tag = Get(With("/runs.json") + shows)->get_header_value("ETag");
  EXPECT_EQ(StatusOf(With("/runs.json") + shows, {{"If-None-Match", tag}}), 304);
  EXPECT_EQ(StatusOf(With("/runs.json") + "&show=b", {{"If-None-Match", tag}}), 200);
  // A change of a run that is not shown changes the list.
  std::ofstream(Path("saves/old/12/trainer_log.jsonl"), std::ios::app) << Line(13, 1.0);
  EXPECT_EQ(StatusOf(With("/runs.json") + shows, {{"If-None-Match", tag}}), 200);
  EXPECT_EQ(Json("/runs.json", shows)["data"]["list"][9]["step"], 13);
}

// Silent connections, each of which may occupy one of 32 slots for half a minute, do not block
// others.
TEST_F(WatchTest, SilentConnectionsDoNotBlockIt) {
  Start({"run"});
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
    Start({"run"});
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
  EXPECT_THAT(
      Run({"watch", "run/trainer_log.jsonl"}),
      FailsWith(2, HasSubstr("run/trainer_log.jsonl: a file, expected the folder of a run")));
  EXPECT_THAT(Run({"watch", "run/trainer_log.jsonl/x"}),
              FailsWith(2, HasSubstr("run/trainer_log.jsonl/x: Not a directory")));
  EXPECT_THAT(Run({"watch", "run", "port=x"}), FailsWith(2, HasSubstr("port: expected a number")));
  EXPECT_THAT(Run({"watch", "run", "port=70000"}),
              FailsWith(2, HasSubstr("port: expected 0 to 65535, got 70000")));
  EXPECT_THAT(Run({"--sandbox", "watch", "run"}),
              FailsWith(2, HasSubstr("--sandbox: no port is opened")));
}

}  // namespace
}  // namespace moonring::testing
