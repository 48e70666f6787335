// The chat of `moonring watch`: answers, the end of an answer, refusals.

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <httplib.h>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lua/watched.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kJson[] = "application/json";

json Messages(const std::vector<std::string>& texts) {
  json messages = json::array();
  for (size_t i = 0; i < texts.size(); ++i)
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", texts[i]}});
  return messages;
}

class WatchChatTest : public Watched {
 protected:
  WatchChatTest() {
    WriteModel("model", TinyWeights(), {{"max_position_embeddings", 1 << 20}});
    WriteConfig("max_steps: 2\nsave_steps: 1\nlearning_rate: 1e-2");
    EXPECT_THAT(Run({"train", "config.yaml"}), Succeeds());
  }

  httplib::Result Post(const std::string& body, const httplib::Headers& headers = {},
                       const std::string& type = kJson) {
    return client_->Post(With("/chat").c_str(), headers, body, type.c_str());
  }
  static json Asking(const std::string& checkpoint, const std::vector<std::string>& texts) {
    return {{"run", "out"}, {"checkpoint", checkpoint}, {"messages", Messages(texts)}};
  }
  // Returns the events of an answer.
  std::vector<json> Events(const json& request) {
    const auto result = Post(request.dump());
    EXPECT_TRUE(result);
    if (!result) return {};
    EXPECT_EQ(result->status, 200) << result->body;
    std::vector<json> events;
    std::istringstream lines(result->body);
    for (std::string line; std::getline(lines, line);) events.push_back(json::parse(line));
    return events;
  }
  static std::string TextOf(const std::vector<json>& events) {
    std::string text;
    for (const json& event : events) text += event.value("text", "");
    return text;
  }
  // Returns what `moonring chat` answers to the last of these lines.
  std::string Chat(const Words& words, const std::string& lines) const {
    CommandOptions options = Options(Words{"chat"} + words);
    options.input = lines;
    const CommandResult result = RunMoonring(options);
    EXPECT_THAT(result, Succeeds());
    const std::string said = result.out.substr(0, result.out.size() - 1);
    return said.substr(said.rfind('\n') + 1);
  }
  bool AwaitState(const std::string& wanted) {
    for (int i = 0; i < 300; ++i) {
      if (Json("/chat.json")["state"] == wanted) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  }
  json Names() {
    json names = json::array();
    const json told = Json("/chat.json", "&run=out");
    for (const json& each : told["checkpoints"]) names.push_back(each["name"]);
    return names;
  }
};

TEST_F(WatchChatTest, AnswersAsChatDoes) {
  Start({"out"});
  const json told = Json("/chat.json", "&run=out");
  EXPECT_EQ(Names(), json({"final", "checkpoint-2", "checkpoint-1"}));
  EXPECT_EQ(told["checkpoints"][1]["command"], "moonring chat out/checkpoint-2 template=smollm2");
  EXPECT_EQ(Json("/chat.json")["state"], "off");  // no model is loaded before the first message
  const Words words = {"out/checkpoint-1", "template=smollm2", "max_new_tokens=12"};
  json asked = Asking("checkpoint-1", {"moon 1"});
  asked["max_new_tokens"] = 12;
  const std::vector<json> events = Events(asked);
  const std::string first = TextOf(events);
  EXPECT_EQ(first, Chat(words, "moon 1\n"));
  EXPECT_EQ(events.front(), (json{{"status", "loading the model"}}));
  EXPECT_GT(events.size(), 8);  // piece by piece
  EXPECT_EQ(events.back()["done"], "length");
  EXPECT_EQ(events.back()["tokens"], 12);
  // The next turn, another checkpoint, a system message, and sampling with a seed.
  asked["messages"] = Messages({"moon 1", first, "and 2?"});
  EXPECT_EQ(TextOf(Events(asked)), Chat(words, "moon 1\nand 2?\n"));
  asked = Asking("final", {"moon 3"});
  asked.update({{"max_new_tokens", 6}, {"temperature", 0.8}, {"seed", 7}, {"system", "Be a moon"}});
  EXPECT_EQ(TextOf(Events(asked)), Chat({"out", "template=smollm2", "max_new_tokens=6",
                                         "temperature=0.8", "seed=7", "default_system=Be a moon"},
                                        "moon 3\n"));
  EXPECT_EQ(Json("/chat.json")["state"], "idle");
  EXPECT_EQ(watch_->Children().size(), 1);  // one model at a time
  // A checkpoint that the run has removed.
  std::filesystem::remove_all(Path("out/checkpoint-1"));
  const auto gone = Post(Asking("checkpoint-1", {"moon"}).dump());
  EXPECT_EQ(gone->status, 404);
  EXPECT_THAT(gone->body, HasSubstr("checkpoint-1 of out is not there any more"));
  EXPECT_EQ(Names(), json({"final", "checkpoint-2"}));
}

// The base of an adapter is found by the adapter's own configuration, relative to the folder in
// which the run was started.
TEST_F(WatchChatTest, AnswersWithAnAdapter) {
  WriteConfig("max_steps: 1\nfinetuning_type: lora\noutput_dir: tuned\nlearning_rate: 1e-2");
  ASSERT_THAT(Run({"train", "config.yaml"}), Succeeds());
  Write("tuned/run_state.json", json{{"state", "finished"},
                                     {"reason", "all steps are done"},
                                     {"began", "2026-11-28T10:00:00Z"},
                                     {"directory", folder_}}
                                    .dump());
  std::filesystem::create_directories(Path("elsewhere"));
  std::filesystem::rename(Path("tuned"), Path("elsewhere/tuned"));
  Start({"elsewhere"});
  json asked = Asking("final", {"moon 1"});
  asked.update({{"run", "tuned"}, {"max_new_tokens", 8}});
  const std::vector<json> events = Events(asked);
  EXPECT_EQ(TextOf(events),
            Chat({"elsewhere/tuned", "template=smollm2", "max_new_tokens=8"}, "moon 1\n"))
      << json(events);
  EXPECT_EQ(Json("/chat.json", "&run=tuned")["checkpoints"][0]["kind"], "adapter");
}

// A browser that closes its connection ends its answer, and the next one gets its own. Meanwhile
// the page's data are served.
TEST_F(WatchChatTest, ClosingTheConnectionStopsTheAnswer) {
  Start({"out"});
  json asked = Asking("final", {"moon 1"});
  asked.update({{"max_new_tokens", 1000000}, {"temperature", 5}, {"top_k", 0}, {"top_p", 1}});
  httplib::Client other("127.0.0.1", port_);
  httplib::Request request;
  request.method = "POST";
  request.path = With("/chat");
  request.headers = {{"Content-Type", kJson}};
  request.body = asked.dump();
  std::string received;
  request.content_receiver = [&](const char* bytes, size_t size, uint64_t, uint64_t) {
    received.append(bytes, size);
    if (received.find("\"text\"") == std::string::npos) return true;
    EXPECT_EQ(Json("/chat.json")["state"], "answering");
    EXPECT_EQ(Json("/runs.json")["data"]["runs"].size(), 1);
    return false;
  };
  std::thread second([&] {  // waits until the first answer has ended
    httplib::Client third("127.0.0.1", port_);
    while (received.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    json short_one = Asking("final", {"moon 1"});
    short_one["max_new_tokens"] = 3;
    const auto result = third.Post(With("/chat").c_str(), short_one.dump(), kJson);
    ASSERT_TRUE(result);
    EXPECT_THAT(result->body, HasSubstr("\"tokens\":3"));
  });
  EXPECT_FALSE(other.send(request));
  second.join();
  EXPECT_TRUE(AwaitState("idle"));
  // The signal that ends `watch` ends the model's process too.
  const std::vector<pid_t> children = watch_->Children();
  ASSERT_EQ(children.size(), 1);
  watch_->Signal(SIGTERM);
  EXPECT_THAT(watch_->LeftBehind(), ElementsAre());
  EXPECT_FALSE(Alive(children[0]));
  EXPECT_THAT(watch_->Wait(), Succeeds());
}

TEST_F(WatchChatTest, RefusesBrokenRequests) {
  Start({"out"});
  const auto refused = [&](const json& request, int status, const std::string& words) {
    const auto result = Post(request.is_string() ? request.get<std::string>() : request.dump());
    ASSERT_TRUE(result) << words;
    EXPECT_EQ(result->status, status) << result->body;
    EXPECT_THAT(result->body, HasSubstr(words));
  };
  const auto changed = [](const json& more) {
    json request = Asking("final", {"moon"});
    request.update(more);
    return request;
  };
  refused("{\"run\": ", 400, "request:1:");
  refused("[1]", 400, "expected a JSON object");
  refused(changed({{"temprature", 1}}), 400,
          "unknown field 'temprature' (did you mean 'temperature'?)");
  refused(changed({{"temperature", -1}}), 400,
          "temperature: expected a number from 0 to 100, got -1");
  refused(changed({{"seed", 1.5}}), 400, "seed: expected a whole number");
  refused(changed({{"messages", json::array()}}), 400, "messages: expected a list");
  refused(changed({{"messages", Messages({"a", "b"})}}), 400, "the user's first and last");
  refused(changed({{"messages", json::array({json{{"role", "system"}, {"content", "a"}}})}}), 400,
          "messages[0]");
  refused(changed({{"run", 5}}), 400, "run: expected a name");
  refused(changed({{"run", "../out"}}), 404, "no run '../out'");
  refused(changed({{"checkpoint", "checkpoint-7"}}), 404, "checkpoint-7 of out is not there");
  refused(changed({{"checkpoint", "../model"}}), 404, "../model of out is not there");
  refused(std::string(2 << 20, ' '), 413, "expected a body of at most 1048576 bytes");
  const std::string good = changed({{"max_new_tokens", 1}}).dump();
  EXPECT_EQ(Post(good, {}, "text/plain")->status, 415);
  EXPECT_EQ(Post(good, {{"Host", "evil.example"}})->status, 403);
  EXPECT_EQ(Post(good, {{"Origin", "http://evil.example"}})->status, 403);
  EXPECT_EQ(client_->Post("/chat", good, kJson)->status, 403);
  EXPECT_EQ(client_->Post("/chat?token=0", good, kJson)->status, 403);
  EXPECT_EQ(StatusOf("/chat.json?run=out"), 403);
  EXPECT_EQ(StatusOf(With("/chat")), 405);
  EXPECT_EQ(StatusOf(With("/chat.json") + "&run=other"), 404);
  // Nothing was started for them.
  EXPECT_EQ(Json("/chat.json")["state"], "off");
  // A model that cannot be loaded: one sentence, and the next request gets its answer.
  std::filesystem::rename(Path("out/checkpoint-2/tokenizer.json"), Path("tokenizer.json"));
  EXPECT_THAT(Events(changed({{"checkpoint", "checkpoint-2"}})).back()["error"].get<std::string>(),
              HasSubstr("tokenizer"));
  EXPECT_EQ(Events(changed({{"max_new_tokens", 1}})).back()["tokens"], 1);
  // A model that does not fit into the memory that is left.
  EXPECT_THAT(Run({"-e",
                   "require('moonring.base.machine').memory_of_rank = function() return 2^20 end; "
                   "require('moonring.run.chat_requests').serve(arg)",
                   "", "model"})
                  .out,
              HasSubstr("of memory beside what else runs on this machine, and 1.0 MiB are"));
  // A reward model.
  Write("out/training_args.yaml", "stage: rm\n");
  EXPECT_THAT(Json("/chat.json", "&run=out")["why"].get<std::string>(), HasSubstr("reward model"));
  refused(changed(json::object()), 404, "out: stage rm trains a reward model");
}

}  // namespace
}  // namespace moonring::testing
