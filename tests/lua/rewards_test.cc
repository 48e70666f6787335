// Rewards: one test for each section of rewards_test.lua; and settings that a script cannot make
// itself: a sandboxed host, a service.

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <httplib.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lua/bindings/libraries.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"
#include "tests/lua/fixture.h"
#include "tests/testing/scratch_folder.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Rewards : public ::testing::TestWithParam<const char*> {};

TEST_P(Rewards, AreAsTheyAreToBe) {
  const auto assets = Assets::Find("test");
  ASSERT_TRUE(assets.ok()) << assets.status();
  const fs::path root = assets->root();
  const testing::ScratchFolder scratch;
  Vm vm(Host{.assets = *assets, .libraries = AllLibraries()});
  const ScriptError error =
      vm.Run((root / "tests/lua/rewards_test.lua").string(), "@rewards_test.lua",
             {GetParam(), scratch.path(), (root / "tests/golden/model/gqa_tied").string()});
  EXPECT_EQ(error.message, "");
}

INSTANTIATE_TEST_SUITE_P(Sections, Rewards,
                         ::testing::Values("files", "failures", "limits", "values", "built_in",
                                           "command", "python", "prompt_forms", "reward_model",
                                           "keys"),
                         [](const auto& info) { return std::string(info.param); });

// The beginning of each script: defines score(given, options) and a batch of one row.
constexpr char kScore[] = R"lua(
  local rewards = require "moonring".rewards
  local function score(given, how)
    local opened = rewards.open(given, how)
    local scores, why = opened:score { prompts = { "p" }, completions = { "c" } }
    opened:close()
    return why and tostring(why) or scores[1].values[1]
  end
  local function equal(got, wanted)
    if got ~= wanted then
      error(("expected %s, got %s"):format(tostring(wanted), tostring(got)), 2)
    end
  end
)lua";

// Under --sandbox
// -------------------------------------------------------------------------------------------------

class ConfinedRewards : public VmTest {
 protected:
  ConfinedRewards() {
    host().sandbox = true;
    host().limits.confinement = confinement_ =
        *ConfineTo({.roots = {scratch_.path()}, .memory = 256 << 20}, host().assets);
  }
  ScriptError Try(const std::string& text) {
    return Run(absl::StrCat(kScore, "local ROOT = '", scratch_.path(), "' ", text));
  }
  const testing::ScratchFolder scratch_;
  std::shared_ptr<base::Confinement> confinement_;
};

TEST_F(ConfinedRewards, AFileSeesNoMachine) {
  scratch_.Write("digits.lua", "return { of = function(s) return tonumber(s:match '%d+') end }");
  scratch_.Write("rewards.lua", R"lua(
    local digits = require "digits"
    assert(json.encode { 1 } == "[1]" and os.time() > 0 and not pcall(string.dump, print))
    for _, name in ipairs { "io", "jit", "debug", "package", "newproxy", "setfenv" } do
      local there, why = pcall(function() return _G[name] end)
      assert(not there and why:find("--sandbox: there is no " .. name, 1, true), why)
    end
    local there, why = pcall(function() return os.execute end)
    assert(not there and why:find("--sandbox: there is no os.execute", 1, true), why)
    for _, name in ipairs { "moonring", "moonring.native.system", "../other", "ffi", "outside" } do
      assert(not pcall(require, name), name)
    end
    return function() return { digits.of "17" } end
  )lua");
  std::ofstream(scratch_.path() + "_outside.lua") << "return 1";
  fs::create_symlink(scratch_.path() + "_outside.lua", scratch_ / "outside.lua");
  EXPECT_EQ(Try("equal(score(ROOT .. '/rewards.lua'), 17)").message, "");
  EXPECT_THAT(Try("rewards.open(ROOT .. '_outside.lua')").message,
              HasSubstr("PERMISSION_DENIED: reward_funcs: --sandbox: "));
  fs::remove(scratch_.path() + "_outside.lua");
}

TEST_F(ConfinedRewards, ProgramsAndServicesAreRefused) {
  EXPECT_EQ(Try("rewards.open { { command = { 'true' } } }").message,
            "PERMISSION_DENIED: reward_funcs[1]: --sandbox: a reward starts no program (command)");
  EXPECT_EQ(Try("rewards.open { url = 'http://localhost:1/' }").message,
            "PERMISSION_DENIED: reward_funcs: --sandbox: a reward asks no service (url)");
  EXPECT_EQ(Try("equal(score 'format:^c$', 1)").message, "");
}

TEST_F(ConfinedRewards, LimitsHoldAndTheScriptsOwnWithThem) {
  scratch_.Write("loops.lua", "return function() while true do pcall(error) end end");
  EXPECT_EQ(Try(R"lua(
    local why = score(ROOT .. "/loops.lua", { timeout = 0.3 })
    assert(why:find("DEADLINE_EXCEEDED: reward 'loops'", 1, true), why)
  )lua")
                .message,
            "");
  // A reward's memory is also limited by the limit of the script that calls it, even if its own
  // limit is higher.
  scratch_.Write("eats.lua", "return function() local t = {} while true do t = { t } end end");
  const int64_t before = confinement_->charged();
  EXPECT_EQ(Try(R"lua(
    local why = score(ROOT .. "/eats.lua", { memory_mib = 4096 })
    assert(why:find("RESOURCE_EXHAUSTED: reward 'eats'", 1, true)
      and why:find("--sandbox-memory allows 268435456 bytes", 1, true), why)
    local why = score(ROOT .. "/eats.lua", { memory_mib = 32 })
    assert(why:find("reward_memory_mib allows 33554432 bytes", 1, true), why)
    equal(#("x"):rep(1e7), 1e7)
  )lua")
                .message,
            "");
  EXPECT_LT(confinement_->charged() - before, 8 << 20);
}

TEST_F(VmTest, AnEmbeddedRuntimeStartsNoProgram) {
  host().embedded = true;
  EXPECT_EQ(Run(absl::StrCat(kScore, "rewards.open { command = { 'true' } }")).message,
            "FAILED_PRECONDITION: reward_funcs: an embedded runtime starts no program (command)");
}

TEST_F(VmTest, InstructionsAreTheScriptsOwn) {
  const testing::ScratchFolder scratch;
  scratch.Write("loops.lua", "return function() while true do pcall(error) end end");
  host().sandbox = true;
  host().limits.instructions = 20'000'000;
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(
      Run(absl::StrCat(kScore, "while true do score('", scratch / "loops.lua", "') end")).message,
      HasSubstr("RESOURCE_EXHAUSTED: --sandbox-instructions: the script took more than"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
}

TEST_F(VmTest, ARewardEndsOnceTheRunIsCancelled) {
  const testing::ScratchFolder scratch;
  scratch.Write("loops.lua", "return function() while true do pcall(error) end end");
  auto cancel = std::make_shared<CancelFlag>(Cancel::kNone);
  host().limits.cancel = cancel;
  vm();
  for (const std::string& given : {absl::StrCat("'", scratch / "loops.lua", "'"),
                                   std::string("{ command = { 'sh', '-c', 'sleep 600' } }")}) {
    *cancel = Cancel::kNone;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      *cancel = Cancel::kNow;
    });
    const auto began = std::chrono::steady_clock::now();
    EXPECT_THAT(Run(absl::StrCat(kScore, "score(", given, ")")).message,
                HasSubstr("CANCELLED: the run was cancelled"));
    other.join();
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
  }
}

// A request to end the run after the current step does not interrupt the rewards of this step.
TEST_F(VmTest, ARewardContinuesWhereTheRunEndsAtItsStep) {
  const testing::ScratchFolder scratch;
  scratch.Write("one.lua", "return function() return { 1 } end");
  auto cancel = std::make_shared<CancelFlag>(Cancel::kNone);
  host().limits.cancel = cancel;
  Define("cancel_at_step", [](lua_State* L) {
    // The flag is const for its readers.
    const_cast<CancelFlag&>(*HostOf(L).limits.cancel) = Cancel::kAtStep;
    return 0;
  });
  EXPECT_EQ(
      Run(absl::StrCat(kScore, "cancel_at_step() equal(score('", scratch / "one.lua", "'), 1)"))
          .message,
      "");
}

// Services
// -------------------------------------------------------------------------------------------------

class RewardService : public VmTest {
 protected:
  RewardService() {
    server_.Post("/score", [this](const httplib::Request& request, httplib::Response& response) {
      ++asked_;
      body_ = request.body;
      type_ = request.get_header_value("Content-Type");
      response.set_content("[0.25]", "application/json");
    });
    server_.Post("/fails_twice", [this](const httplib::Request&, httplib::Response& response) {
      response.status = ++asked_ <= 2 ? (asked_ == 1 ? 503 : 500) : 200;
      response.set_content(asked_ <= 2 ? "not\nyet" : "[1]", "text/plain");
    });
    server_.Post("/slow_once", [this](const httplib::Request&, httplib::Response& response) {
      if (++asked_ == 1) std::this_thread::sleep_for(std::chrono::seconds(4));
      response.set_content("[1]", "text/plain");
    });
    server_.Post("/trickles", [](const httplib::Request&, httplib::Response& response) {
      response.set_chunked_content_provider("text/plain", [](size_t, httplib::DataSink& sink) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return sink.write(" ", 1);
      });
    });
    server_.Post("/garbage", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("<html>", "text/html");
    });
    server_.Post("/long", [](const httplib::Request&, httplib::Response& response) {
      response.set_content(std::string((64 << 20) + 1, ' '), "application/json");
    });
    server_.Post("/long_chunks", [](const httplib::Request&, httplib::Response& response) {
      response.set_chunked_content_provider("text/plain", [](size_t, httplib::DataSink& sink) {
        const std::string blanks(1 << 20, ' ');
        return sink.write(blanks.data(), blanks.size());
      });
    });
    server_.Post("/two", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("[1, 2]", "application/json");
    });
    server_.Post("/refuses", [this](const httplib::Request&, httplib::Response& response) {
      ++asked_;
      response.status = 422;
      response.set_content("no column\n 'answer'", "text/plain");
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~RewardService() override {
    server_.stop();
    thread_.join();
  }
  // Runs `text` after kScore and a definition of ask(path, options, how).
  ScriptError Try(const std::string& text) {
    return Run(absl::StrCat(kScore, "local URL = 'http://127.0.0.1:", port_, "' ", R"lua(
      local function ask(path, options, how)
        local spec = options or {}
        spec.url = URL .. path
        local why = score({ url = spec }, how)
        return type(why) == "string" and why:gsub(URL, "URL") or why
      end
    )lua",
                            text));
  }
  httplib::Server server_;
  std::thread thread_;
  std::atomic<int> asked_ = 0;
  std::string body_, type_;
  int port_ = 0;
};

TEST_F(RewardService, Answers) {
  EXPECT_EQ(Try("equal(ask '/score', 0.25)").message, "");
  EXPECT_EQ(body_, R"({"completions":["c"],"prompts":["p"]})");
  EXPECT_EQ(type_, "application/json");
  EXPECT_EQ(Try("equal(ask '/score?model=a', 0.25)").message, "");
  EXPECT_EQ(asked_, 2);
}

TEST_F(RewardService, IsAskedAgain) {
  EXPECT_EQ(Try(R"lua(
    local said = {}
    equal(ask("/fails_twice", nil, { say = function(line) said[#said + 1] = line:gsub(URL, "URL")
    end }), 1)
    equal(table.concat(said, "|"), "reward 'url' (URL/fails_twice): it says 503 Service "
      .. "Unavailable: not yet; try 2 of 3|reward 'url' (URL/fails_twice): it says 500 Internal "
      .. "Server Error: not yet; try 3 of 3")
  )lua")
                .message,
            "");
  EXPECT_EQ(asked_, 3);
  asked_ = 0;
  EXPECT_EQ(Try("equal(ask('/fails_twice', { retries = 1 }), \"UNAVAILABLE: reward 'url' "
                "(URL/fails_twice): it says 500 Internal Server Error: not yet (the last of 2 "
                "tries)\")")
                .message,
            "");
  asked_ = 0;
  EXPECT_EQ(Try("equal(ask('/slow_once', { timeout = 2 }, { say = function() end }), 1)").message,
            "");
  EXPECT_EQ(asked_, 2);
}

TEST_F(RewardService, ADeadlineIsOfTheWholeAnswer) {
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(Try("equal(ask('/trickles', { timeout = 0.5, retries = 0 }), \"DEADLINE_EXCEEDED: "
                "reward 'url' (URL/trickles): no answer within 0.5 seconds\")")
                .message,
            "");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
}

TEST_F(RewardService, WhatIsWrongIsReportedOnce) {
  EXPECT_EQ(Try("equal(ask '/refuses', \"ABORTED: reward 'url' (URL/refuses): it says 422 "
                "Unprocessable Entity: no column 'answer'\")")
                .message,
            "");
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(Try("equal(ask '/two', \"ABORTED: reward 'url' (URL/two): got 2 values for 1 "
                "completions; expected one each, null where there is nothing to say\")")
                .message,
            "");
  EXPECT_EQ(Try("local why = ask '/garbage' assert(why:find(\"ABORTED: reward 'url' "
                "(URL/garbage): the answer:1:1: not valid JSON: \", 1, true) == 1, why)")
                .message,
            "");
  EXPECT_EQ(Try("local why = ask '/nowhere' assert(why:find(\"ABORTED: reward 'url' "
                "(URL/nowhere): it says 404 Not Found\", 1, true) == 1, why)")
                .message,
            "");
}

TEST_F(RewardService, AnAnswerHasAnEnd) {
  for (const char* path : {"/long", "/long_chunks"}) {
    EXPECT_EQ(Try(absl::StrCat("equal(ask '", path, "', \"RESOURCE_EXHAUSTED: reward 'url' (URL",
                               path, "): the answer is longer than 64 MiB\")"))
                  .message,
              "");
  }
}

TEST_F(RewardService, NobodyThere) {
  server_.stop();
  EXPECT_EQ(Try("local why = ask('/score', { retries = 0 }) assert(why:find(\"UNAVAILABLE: reward "
                "'url' (URL/score): URL: Failed to connect\", 1, true) == 1, why)")
                .message,
            "");
  for (const auto& [url, why] : {std::pair{"localhost:80", "no address"},
                                 {"ftp://a/", "no address"},
                                 {"https://:80/", "no host"},
                                 {"http://[]:80/", "no host"},
                                 {"http://a:0/", "no such port"},
                                 {"http://a:b/", "no such port"},
                                 {"http://me:secret@a/", "a name and password are not sent"},
                                 {"http://[::1]:x/", "no such port"},
                                 {"http://a/ b", "it has a space, a '#' or a control sign"}}) {
    EXPECT_EQ(Try(absl::StrCat("rewards.open { url = '", url, "' }")).message,
              absl::StrCat("INVALID_ARGUMENT: reward_funcs: url: '", url, "': ", why,
                           "; expected http://HOST:PORT/PATH, or https"));
  }
}

}  // namespace
}  // namespace moonring::lua
