// Malformed requests: each is refused with a reason, and with a status after which a client does
// not repeat it.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lua/serve/open_service.h"

namespace moonring::serve {
namespace {

class MalformedRequests : public OpenService {
 protected:
  // A well-formed request, and the fields that it must have.
  struct Form {
    std::string path;
    Json body;
    std::set<std::string> needed;
  };

  std::vector<Form> Forms() {
    const std::string session = NewSession(), model = NewModel(session);
    const Json datum = {{"model_input", {{"chunks", {{{"tokens", {1}}}}}}},
                        {"loss_fn_inputs", Json::object()}};
    const Json loss = {{"data", {datum}}, {"loss_fn", "cross_entropy"}};
    return {
        {"session_heartbeat", {{"session_id", session}}, {"session_id"}},
        {"create_model",
         {{"session_id", session}, {"model_seq_id", 1}, {"base_model", "tiny"}},
         {"session_id", "model_seq_id"}},
        {"create_sampling_session",
         {{"session_id", session}, {"sampling_session_seq_id", 1}, {"base_model", "tiny"}},
         {"session_id", "sampling_session_seq_id", "base_model"}},
        {"get_info", {{"model_id", model}}, {"model_id"}},
        {"weights_info", {{"tinker_path", "tinker://a/weights/b"}}, {"tinker_path"}},
        {"forward_backward",
         {{"model_id", model}, {"seq_id", 1}, {"forward_backward_input", loss}},
         {"model_id", "seq_id"}},
        {"forward",
         {{"model_id", model}, {"seq_id", 1}, {"forward_input", loss}},
         {"model_id", "seq_id"}},
        {"optim_step", {{"model_id", model}, {"seq_id", 1}}, {"model_id", "seq_id"}},
        {"save_weights", {{"model_id", model}, {"seq_id", 1}}, {"model_id", "seq_id"}},
        {"save_weights_for_sampler",
         {{"model_id", model}, {"seq_id", 1}, {"sampling_session_seq_id", 3}},
         {"model_id", "seq_id", "sampling_session_seq_id"}},
        {"load_weights", {{"model_id", model}, {"seq_id", 1}}, {"seq_id"}},
        {"asample",
         {{"sampling_session_id", session + ":sample:0"}, {"seq_id", 0}, {"num_samples", 1}},
         {"sampling_session_id", "seq_id"}},
        {"retrieve_future", {{"request_id", "no/such"}}, {"request_id"}},
        {"cancel_future", {{"request_id", "no/such"}}, {"request_id"}},
    };
  }

  // Sends a body, which must be refused.
  void Refuse(const std::string& path, const std::string& body,
              const std::string& type = "application/json") {
    const Got got = PostText(path, body, type);
    const std::string shown = path + " " + body.substr(0, 200);
    ++refused_;
    EXPECT_TRUE(kFinal.count(got.status)) << got.status << " " << shown << " " << got.text;
    ASSERT_TRUE(got.body.is_object()) << shown << " " << got.text;
    const std::string why = path.rfind("/api/", 0) == 0 ? got.body.value("detail", "")
                                                        : got.body["error"].value("message", "");
    EXPECT_GT(why.size(), 10u) << shown << " " << got.text;
  }

  const std::set<int> kFinal = {400, 401, 403, 404, 405, 410, 413, 422};
  int refused_ = 0;
};

TEST_F(MalformedRequests, AreRefusedForGood) {
  Start();
  Begin();
  const std::vector<std::string> texts = {"",
                                          "x",
                                          "null",
                                          "[]",
                                          "5",
                                          "\"a\"",
                                          "{",
                                          "{\"a\"",
                                          "{\"a\": }",
                                          "{\"session_id\": \"\xff\"}",
                                          "{\"seq_id\": 1e999}",
                                          std::string(100'000, '['),
                                          std::string("{\"\0\": 1", 8)};
  for (const Form& form : Forms()) {
    const std::string path = "/api/v1/" + form.path;
    for (const std::string& text : texts) Refuse(path, text);
    const std::string whole = form.body.dump();
    Refuse(path, whole.substr(0, whole.size() / 2));
    for (const std::string& name : form.needed) {
      std::vector<Json> others = {nullptr, Json::array(), Json::object(), true, -1, 0.5};
      others.push_back(form.body[name].is_string() ? Json(std::string(3000, 'a')) : Json("1"));
      for (const Json& other : others) {
        Json body = form.body;
        body[name] = other;
        Refuse(path, body.dump());
      }
      Json body = form.body;
      body.erase(name);
      Refuse(path, body.dump());
    }
  }
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize"}) {
    for (const std::string& text : texts) Refuse(path, text);
  }
  EXPECT_GE(refused_, 300);
  EXPECT_FALSE(Next(std::chrono::milliseconds(0)).has_value());  // none of them became a job
}

TEST_F(MalformedRequests, OfProtobuf) {
  Start();
  Begin();
  const std::string model = NewModel(NewSession());
  const std::string beginning = "\x0a" + std::string(1, static_cast<char>(model.size())) + model;
  const std::string protobuf = "application/x-protobuf", path = "/api/v1/forward_backward";
  const std::vector<std::string> bodies = {
      "",                                                          // no fields
      beginning,                                                   // no seq_id
      beginning + std::string("\x10\x00", 2),                      // seq_id 0
      beginning + "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  // seq_id -1
      beginning + "\x10\xff\xff\xff\xff\xff\x01",                  // seq_id 2^42 - 1
      std::string("\x0a\x03") + "abc\x10\x01",                     // not the id of a model
      std::string("\x0a\x0b") + "s\xff:train:0:\x10\x01",          // not UTF-8
      beginning + "\x10",                                          // cut off
      beginning + "\x10\x01\x1a\x7f",                              // a datum longer than the body
      "\x0b",                                                      // a group without an end
      std::string(64, '\xff'),
      "{}",
  };
  for (const std::string& body : bodies) Refuse(path, body, protobuf);
  EXPECT_FALSE(Next(std::chrono::milliseconds(0)).has_value());
}

}  // namespace
}  // namespace moonring::serve
