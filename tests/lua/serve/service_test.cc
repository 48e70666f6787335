// The door of a service over sockets: order, repetition, polls, restarts, held requests, access.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lua/serve/open_service.h"

namespace moonring::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using ServiceTest = OpenService;
using std::chrono::milliseconds;

std::string Recording(const std::string& name) {
  std::ifstream file("tests/lua/serve/recorded/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(ServiceTest, RunsRequestsInTheOrderOfSeqIdsOnce) {
  Start();
  Begin();
  const std::string model = NewModel(NewSession());
  constexpr int64_t kCount = 24;
  std::vector<int64_t> seqs;
  for (int64_t seq = 1; seq <= kCount; ++seq) seqs.insert(seqs.end(), 2, seq);  // each comes twice
  std::shuffle(seqs.begin(), seqs.end(), std::mt19937(1));
  std::vector<std::thread> clients;
  for (size_t c = 0; c < 4; ++c) {
    clients.emplace_back([&, c] {
      for (size_t i = c; i < seqs.size(); i += 4) {
        const Got got = Step(model, seqs[i]);
        EXPECT_EQ(got.status, 200) << got.text;
        EXPECT_EQ(got.body.value("request_id", ""), model + "/" + std::to_string(seqs[i]));
      }
    });
  }
  for (int64_t seq = 1; seq <= kCount; ++seq) {
    const auto job = Next();
    ASSERT_TRUE(job.has_value()) << seq;
    EXPECT_EQ(job->seq, seq);
    EXPECT_EQ(job->model, model);
    EXPECT_LT(job->seed, uint64_t{1} << 53);
    service_->Done(job->id, "{}", kJson);
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(Step(model, 1).status, 200);  // a repetition after the result
  EXPECT_FALSE(Next(milliseconds(0)).has_value());
}

TEST_F(ServiceTest, PollsWaitForResults) {
  Start();
  Begin();
  const std::string model = NewModel(NewSession());
  const std::string id = Step(model, 1).body["request_id"];
  const Got early = Poll(id);
  EXPECT_EQ(early.status, 408);
  EXPECT_EQ(early.body,
            (Json{{"type", "try_again"}, {"request_id", id}, {"queue_state", "active"}}));
  options_.poll = std::chrono::seconds(30);  // from now on a poll ends by its result alone
  Start();
  Begin();
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&] {
      const Got got = Poll(id);
      EXPECT_EQ(got.status, 200);
      EXPECT_EQ(got.body, (Json{{"metrics", {{"grad_norm", 2.5}}}}));
    });
  }
  for (auto job = Next(); job.has_value(); job = Next(milliseconds(0))) {
    if (job->route == "create_model") {  // runs again for its effect
      EXPECT_TRUE(job->replay);
      service_->Done(job->id, "{}", kJson);
      continue;
    }
    EXPECT_FALSE(job->replay);
    std::this_thread::sleep_for(milliseconds(50));  // a client may poll before or after
    service_->Done(job->id, R"({"metrics": {"grad_norm": 2.5}})", kJson);
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(Poll(id).status, 200);  // an answer may be lost: it is given again
}

TEST_F(ServiceTest, FailuresLetTheNextOneRun) {
  Start();
  Begin();
  const std::string model = NewModel(NewSession());
  const std::string first = Step(model, 1).body["request_id"];
  const std::string second = Step(model, 2).body["request_id"];
  service_->Fail(Next()->id, "adam_params.beta1: expected less than 1, got 2", "user");
  const Got failed = Poll(first);
  EXPECT_EQ(failed.status, 200);
  EXPECT_EQ(failed.body["error"], "adam_params.beta1: expected less than 1, got 2");
  EXPECT_EQ(failed.body["category"], "user");
  EXPECT_EQ(Next()->seq, 2);
  service_->Done(second, "{}", kJson);
  EXPECT_EQ(Poll(second).body, Json::object());
  EXPECT_EQ(Poll(model + "/3").status, 410);
  EXPECT_THAT(Poll("x").body.value("detail", ""), HasSubstr("request 'x' is not known"));
}

TEST_F(ServiceTest, ContinuesAfterARestart) {
  Start();
  Begin();
  const std::string session = NewSession();
  const std::string model = NewModel(session);
  const std::string sampler =
      Post("/api/v1/create_sampling_session",
           {{"session_id", session}, {"sampling_session_seq_id", 0}, {"base_model", "tiny"}})
          .body["sampling_session_id"];
  const std::string first = Step(model, 1).body["request_id"];
  service_->Done(Next()->id, R"({"step": 1})", kJson);
  EXPECT_EQ(Step(model, 2).status, 200);
  const auto running = Next();  // is running at the end of the process
  EXPECT_EQ(Step(model, 4).status, 200);
  const Json sample = {{"sampling_session_id", sampler},
                       {"seq_id", 0},
                       {"num_samples", 2},
                       {"prompt", {{"chunks", {{{"tokens", {1, 2}}}}}}}};
  const Got sampled = Post("/api/v1/asample", sample);
  EXPECT_EQ(sampled.body["sample_sequence_ids"], (Json{sampler + "/0/0", sampler + "/0/1"}));

  Start();
  // Requests wait until the models are known, and are then answered.
  std::thread early([&] { EXPECT_EQ(Poll(first).body, (Json{{"step", 1}})); });
  std::this_thread::sleep_for(milliseconds(50));
  Begin();
  early.join();
  EXPECT_EQ(Post("/api/v1/session_heartbeat", {{"session_id", session}}).status, 200);
  std::vector<std::pair<std::string, bool>> order;
  while (const auto job = Next(milliseconds(200))) {
    order.emplace_back(job->id, job->replay);
    if (job->seq == 2) {
      EXPECT_EQ(job->seed, running->seed);
      EXPECT_EQ(job->body, running->body);
    }
    service_->Done(job->id, "{}", kJson);
  }
  EXPECT_THAT(order, ElementsAre(std::pair(session + "/model/0", true), std::pair(first, true),
                                 std::pair(model + "/2", false)));
  EXPECT_EQ(Poll(first).body, (Json{{"step", 1}}));  // the first result stays
  EXPECT_EQ(Step(model, 3).status, 200);             // lets 4 run, which came before the restart
  EXPECT_EQ(Next()->seq, 3);
  EXPECT_EQ(Next()->seq, 4);
  // A sample runs again only if somebody still wants it.
  EXPECT_EQ(Poll(sampler + "/0").status, 408);
  const auto job = Next();
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->route, "asample");
  EXPECT_EQ(job->weights, "tiny");
  EXPECT_EQ(Json::parse(job->body), sample);
}

TEST_F(ServiceTest, GivesResultsInTheFormThatIsAskedFor) {
  Start();
  Begin();
  const std::string model = NewModel(NewSession());
  const std::string id = Step(model, 1).body["request_id"];
  const std::string bytes = Recording("loss_result.bin");
  service_->Done(Next()->id, bytes, "application/x-protobuf");
  const Got protobuf = Poll(id);
  EXPECT_EQ(protobuf.text, bytes);
  EXPECT_EQ(protobuf.type, "application/x-protobuf");
  httplib::Client plain("127.0.0.1", service_->port());
  const auto got =
      Read(plain.Post("/api/v1/retrieve_future", {{"X-API-Key", kKey}, {"Accept", "*/*"}},
                      Json{{"request_id", id}}.dump(), kJson));
  EXPECT_EQ(got.type, kJson);
  EXPECT_EQ(got.body["metrics"]["loss:sum"], 21.5);
  // Of a large result a client may take the size first.
  const std::string large = Step(model, 2).body["request_id"];
  service_->Done(Next()->id, std::string(size_t{5} << 20, 'x'), "application/x-protobuf");
  const Got size =
      Post("/api/v1/retrieve_future", {{"request_id", large}, {"allow_metadata_only", true}});
  EXPECT_EQ(size.body, (Json{{"status", "complete_metadata"}, {"response_payload_size", 5 << 20}}));
  EXPECT_EQ(Poll(large).text.size(), size_t{5} << 20);
}

TEST_F(ServiceTest, AnswersQuestionsFromFacts) {
  Start();
  Begin();
  EXPECT_EQ(Get("/api/v1/healthz").body, (Json{{"status", "ok"}}));
  EXPECT_EQ(Get("/api/v1/get_server_capabilities").body["supported_models"][0]["model_name"],
            "tiny");
  service_->Publish("model", "s:train:0", R"({"model_id": "s:train:0"})");
  service_->Publish("weights", "tinker://s:train:0/weights/a", R"({"base_model": "tiny"})");
  service_->Publish("checkpoint", "tinker://s:train:0/weights/a", R"({"checkpoint_id": "a"})");
  service_->Publish("checkpoint", "tinker://s:train:01/weights/b", R"({"checkpoint_id": "b"})");
  EXPECT_EQ(Post("/api/v1/get_info", {{"model_id", "s:train:0"}}).body["model_id"], "s:train:0");
  const Got none = Post("/api/v1/get_info", {{"model_id", "s:train:O"}});
  EXPECT_EQ(none.status, 404);
  EXPECT_THAT(none.body.value("detail", ""), HasSubstr("did you mean 's:train:0'"));
  EXPECT_EQ(Post("/api/v1/weights_info", {{"tinker_path", "tinker://s:train:0/weights/a"}})
                .body["base_model"],
            "tiny");
  const Got list = Get("/api/v1/training_runs/s:train:0/checkpoints?limit=5&offset=0");
  EXPECT_EQ(list.body["checkpoints"], (Json{{{"checkpoint_id", "a"}}}));
  service_->Withdraw("model", "s:train:0");
  EXPECT_EQ(Post("/api/v1/get_info", {{"model_id", "s:train:0"}}).status, 404);
  EXPECT_EQ(Get("/v1/models").body["data"][0]["id"], "tiny");
}

TEST_F(ServiceTest, HoldsRequestsOfOpenAisApi) {
  Start();
  Begin();
  std::thread client([&] {
    const Got got = Post("/v1/completions", {{"model", "tiny"}, {"prompt", "a"}});
    EXPECT_EQ(got.status, 404);
    EXPECT_EQ(got.body["error"]["type"], "invalid_request_error");
  });
  auto job = Next();
  ASSERT_TRUE(job.has_value() && job->held);
  EXPECT_EQ(job->route, "completions");
  service_->Reply(job->id, 404, kJson, R"({"error": {"type": "invalid_request_error"}})");
  client.join();
  std::thread reader([&] {
    const Got got = Post("/oai/api/v1/chat/completions", {{"stream", true}});
    EXPECT_EQ(got.text, "data: 1\n\ndata: [DONE]\n\n");
    EXPECT_THAT(got.type, HasSubstr("text/event-stream"));
  });
  job = Next();
  ASSERT_TRUE(job.has_value());
  service_->Begin(job->id, "text/event-stream");
  EXPECT_TRUE(service_->Send(job->id, "data: 1\n\n"));
  EXPECT_TRUE(service_->Send(job->id, "data: [DONE]\n\n"));
  service_->Finish(job->id);
  reader.join();
}

TEST_F(ServiceTest, SeesThatAClientHasLeft) {
  Start();
  Begin();
  auto client = std::make_unique<httplib::Client>("127.0.0.1", service_->port());
  std::thread sender([&] {
    client->set_read_timeout(milliseconds(300));
    EXPECT_FALSE(client->Post("/v1/completions", {{"X-API-Key", kKey}}, "{}", kJson));
    client->stop();
  });
  const auto job = Next();
  ASSERT_TRUE(job.has_value());
  EXPECT_FALSE(service_->IsGone(job->id));
  sender.join();
  client.reset();
  for (int i = 0; i < 2000 && !service_->IsGone(job->id); ++i)
    std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(service_->IsGone(job->id));
  service_->Reply(job->id, 200, kJson, "{}");  // does nothing
  EXPECT_EQ(Get("/api/v1/healthz").status, 200);
}

TEST_F(ServiceTest, ChecksKeysAndOrigins) {
  Start();
  Begin();
  httplib::Client client("127.0.0.1", service_->port());
  const auto status = [&](httplib::Headers headers, const char* path = "/api/v1/healthz") {
    const auto got = client.Get(path, headers);
    return got ? got->status : 0;
  };
  const std::string key = kKey;
  EXPECT_EQ(status({}), 401);
  EXPECT_EQ(status({{"X-API-Key", "tml-0123456789abcdeg"}}), 401);
  EXPECT_EQ(status({{"X-API-Key", key.substr(0, 19)}}), 401);
  EXPECT_EQ(status({{"x-api-key", key}}), 200);
  EXPECT_EQ(status({{"api-key", key}}), 200);
  EXPECT_EQ(status({{"Authorization", "Bearer " + key}}), 200);
  EXPECT_EQ(status({{"Authorization", "bearer " + key}}), 200);
  EXPECT_EQ(status({{"Authorization", key}}), 401);
  EXPECT_EQ(status({{"X-API-Key", key}, {"Host", "evil.example"}}), 403);
  EXPECT_EQ(status({{"X-API-Key", key}, {"Origin", "http://evil.example"}}), 403);
  EXPECT_EQ(status({{"X-API-Key", key}}, "/api/v1/get_info"), 405);
  const auto refused = client.Get("/v1/models");
  ASSERT_TRUE(refused);
  const Json error = Json::parse(refused->body)["error"];
  EXPECT_EQ(error["type"], "authentication_error");
  EXPECT_TRUE(error.contains("param") && error.contains("code"));
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("X-API-Key"));
  EXPECT_THAT(Get("/api/v1/heathz").body.value("detail", ""),
              HasSubstr("did you mean '/api/v1/healthz'"));
}

TEST_F(ServiceTest, GivesFilesOfPublishedWeights) {
  options_.external = ::testing::TempDir() + "/external";
  std::filesystem::create_directories(options_.external + "/m/w");
  std::ofstream(options_.external + "/m/w/adapter.txt") << "numbers";
  std::ofstream(options_.external + "/secret.txt") << "no weights";
  Start();
  Begin();
  const std::string urls =
      "/api/v1/training_runs/m/checkpoints/external_weights/w/external_weights_urls";
  EXPECT_EQ(Get(urls).status, 404);
  service_->Publish("weights", "tinker://m/external_weights/w", "{}");
  httplib::Client client("127.0.0.1", service_->port());
  const auto url = [&](httplib::Headers headers) {
    headers.insert({"X-API-Key", kKey});
    const auto got = client.Get(urls, headers);
    return got ? Json::parse(got->body)["urls"].value("adapter.txt", "") : "";
  };
  const std::string here = "http://127.0.0.1:" + std::to_string(service_->port());
  ASSERT_EQ(url({}).substr(0, here.size()), here);
  EXPECT_EQ(url({{"X-Forwarded-Proto", "https"}}).substr(0, 8), "https://");
  const std::string path = url({}).substr(here.size());
  const auto file = client.Get(path);  // without the key
  ASSERT_TRUE(file);
  EXPECT_EQ(file->body, "numbers");
  const std::string folder = path.substr(0, path.find("/m/w/"));
  EXPECT_EQ(client.Get(folder + "/m/w/%2e%2e%2f%2e%2e%2fsecret.txt")->status, 404);
  EXPECT_EQ(client.Get("/api/v1/external_files/0123/m/w/adapter.txt")->status, 401);
}

TEST_F(ServiceTest, EndsSessions) {
  Start();
  Begin();
  const std::string session = NewSession();
  const std::string model = NewModel(session);
  EXPECT_EQ(Step(model, 2).status, 200);  // waits for 1
  EXPECT_EQ(Post("/api/v1/sessions/" + session + "/finish", Json::object()).status, 200);
  const auto job = Next();
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->route, "finish");
  EXPECT_EQ(Json::parse(job->body)["session_id"], session);
  EXPECT_EQ(Post("/api/v1/session_heartbeat", {{"session_id", session}}).status, 410);
  EXPECT_EQ(Step(model, 1).status, 410);
  service_->Done(job->id, "{}", kJson);
  Start();
  Begin();
  EXPECT_EQ(Post("/api/v1/session_heartbeat", {{"session_id", session}}).status, 410);
  EXPECT_FALSE(Next(milliseconds(0)).has_value());
}

TEST_F(ServiceTest, ARepeatedCreationIsTheSameSession) {
  Start();
  Begin();
  auto client = Client();
  const auto create = [&](const std::string& key) {
    return Read(client.Post("/api/v1/create_session", {{"X-Idempotency-Key", key}}, "{}", kJson))
        .body.value("session_id", "");
  };
  const std::string session = create("a");
  EXPECT_EQ(create("a"), session);
  EXPECT_NE(create("b"), session);
}

}  // namespace
}  // namespace moonring::serve
