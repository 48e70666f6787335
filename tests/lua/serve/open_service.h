#ifndef MOONRING_TESTS_LUA_SERVE_OPEN_SERVICE_H_
#define MOONRING_TESTS_LUA_SERVE_OPEN_SERVICE_H_

// A service without a model: the test takes its jobs and gives their results, and sends requests
// to it over sockets.

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "httplib.h"
#include "lua/serve/body_json.h"
#include "lua/serve/service.h"

namespace moonring::serve {

class OpenService : public ::testing::Test {
 protected:
  static constexpr char kKey[] = "tml-0123456789abcdef";

  OpenService() {
    folder_ = ::testing::TempDir() + "/" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    options_.key = kKey;
    options_.folder = folder_;
    options_.base_models = {{.names = {"tiny", "/models/tiny"}, .max_context_length = 64}};
    options_.poll = std::chrono::milliseconds(200);
  }

  // Opens the service; if it was open, this is a restart.
  void Start() {
    service_.reset();
    auto opened = Service::Open(options_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    service_ = *std::move(opened);
  }
  // The model's thread is ready.
  void Begin() { EXPECT_FALSE(service_->Next({}, {"none"}).has_value()); }

  std::optional<Service::Delivery> Next(std::chrono::milliseconds wait = std::chrono::seconds(20)) {
    return service_->Next(wait, {});
  }

  httplib::Client Client() const {
    httplib::Client client("127.0.0.1", service_->port());
    client.set_default_headers({{"X-API-Key", kKey}, {"Accept", "application/x-protobuf"}});
    client.set_read_timeout(std::chrono::seconds(60));
    return client;
  }

  struct Got {
    int status = 0;
    Json body;
    std::string text, type;
  };
  static Got Read(const httplib::Result& result) {
    EXPECT_TRUE(result) << httplib::to_string(result.error());
    if (!result) return {};
    return {result->status, Json::parse(result->body, nullptr, false), result->body,
            result->get_header_value("Content-Type")};
  }
  Got Post(const std::string& path, const Json& body) const { return PostText(path, body.dump()); }
  Got PostText(const std::string& path, const std::string& body,
               const std::string& type = "application/json") const {
    auto client = Client();
    return Read(client.Post(path, body, type));
  }
  Got Get(const std::string& path) const {
    auto client = Client();
    return Read(client.Get(path));
  }
  Got Poll(const std::string& id) const {
    return Post("/api/v1/retrieve_future", {{"request_id", id}});
  }

  std::string NewSession() const {
    return Post("/api/v1/create_session", {{"tags", Json::array()}}).body.value("session_id", "");
  }
  // Creates a model, and takes and finishes its job.
  std::string NewModel(const std::string& session) {
    const Got got = Post("/api/v1/create_model", {{"session_id", session},
                                                  {"model_seq_id", 0},
                                                  {"base_model", "tiny"},
                                                  {"lora_config", {{"rank", 4}}}});
    EXPECT_EQ(got.status, 200) << got.text;
    const auto job = Next();
    EXPECT_TRUE(job.has_value() && job->route == "create_model");
    if (job.has_value()) service_->Done(job->id, Json{{"model_id", job->model}}.dump(), kJson);
    return session + ":train:0";
  }
  Got Step(const std::string& model, int64_t seq) const {
    return Post("/api/v1/optim_step",
                {{"model_id", model}, {"seq_id", seq}, {"adam_params", Json::object()}});
  }

  static constexpr char kJson[] = "application/json";
  std::string folder_;
  Service::Options options_;
  std::unique_ptr<Service> service_;
};

}  // namespace moonring::serve

#endif  // MOONRING_TESTS_LUA_SERVE_OPEN_SERVICE_H_
