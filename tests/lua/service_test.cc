// The example service for fine-tuning over HTTP, run as a process.

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <httplib.h>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class Service : public Workplace {
 protected:
  Service() {
    WriteModel("model");
    WriteConfig();  // creates the data files too
    Start();
  }
  ~Service() override { Stop(); }

  void Start(std::vector<std::string> more = {}) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const std::string program = Runfile("lua/examples/service");
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {
      dup2(ends[1], 1);
      more.insert(more.begin(), {program, "--root", folder_, "--workers", "2", "--threads", "1"});
      std::vector<char*> words;
      for (std::string& word : more) words.push_back(word.data());
      words.push_back(nullptr);
      execv(program.c_str(), words.data());
      _exit(127);
    }
    close(ends[1]);
    FILE* out = fdopen(ends[0], "r");
    EXPECT_EQ(std::fscanf(out, "listening on http://127.0.0.1:%d", &port_), 1);
    std::fclose(out);
    client_ = std::make_unique<httplib::Client>("127.0.0.1", port_);
    client_->set_read_timeout(600);
  }
  void Stop() {
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }

  struct Answered {
    int status = 0;
    json body;
  };
  Answered Take(const httplib::Result& result) {
    EXPECT_TRUE(result);
    return result ? Answered{result->status, json::parse(result->body)} : Answered{};
  }
  // Opens a connection to the service and returns its socket.
  int Call() const {
    const int caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(caller, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return caller;
  }
  Answered Post(const json& configuration) {
    return Take(client_->Post("/jobs", configuration.dump(), "application/json"));
  }
  Answered Get(const std::string& path) { return Take(client_->Get(path.c_str())); }
  // Waits until the job has this status or has ended with another one. Returns the job.
  json Wait(const std::string& id, const std::string& status) {
    while (true) {
      const json job = Get("/jobs/" + id).body;
      const std::string now = job.value("status", "none");
      if (now == status) return job;
      if (now != "waiting" && now != "running") {
        ADD_FAILURE() << job;
        return job;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  static json Configuration(const json& more = json::object()) {
    json whole = {{"stage", "sft"},
                  {"do_train", true},
                  {"finetuning_type", "full"},
                  {"model_name_or_path", "model"},
                  {"dataset", "rows"},
                  {"dataset_dir", "data"},
                  {"template", "smollm2"},
                  {"cutoff_len", 256},
                  {"per_device_train_batch_size", 2},
                  {"learning_rate", 2e-3},
                  {"max_steps", 3},
                  {"logging_steps", 1},
                  {"val_size", 2},
                  {"eval_strategy", "steps"},
                  {"eval_steps", 2},
                  {"report_to", "none"}};
    whole.update(more);
    return whole;
  }

  pid_t pid_ = -1;
  int port_ = 0;
  std::unique_ptr<httplib::Client> client_;
};

TEST_F(Service, TrainsTwoJobsAtOnceToTheEnd) {
  const Answered first = Post(Configuration()), second = Post(Configuration({{"seed", 7}}));
  ASSERT_EQ(first.status, 202) << first.body;
  ASSERT_EQ(second.status, 202) << second.body;
  for (const Answered& each : {first, second}) {
    const std::string id = each.body["id"];
    const json job = Wait(id, "done");
    EXPECT_EQ(job["progress"]["step"], 3);
    EXPECT_EQ(job["progress"]["total_steps"], 3);
    EXPECT_GT(job["metrics"]["eval_loss"].get<double>(), 0);
    EXPECT_TRUE(std::filesystem::exists(Path("jobs/" + id + "/output/model.safetensors")));
  }
  EXPECT_EQ(Get("/jobs").body.size(), 2u);
}

// If the service is started again with the same folder, the files of earlier jobs are kept and job
// numbers continue.
TEST_F(Service, JobNumbersContinue) {
  const std::string id = Post(Configuration()).body["id"];
  Wait(id, "done");
  Stop();
  Start();
  EXPECT_EQ(Post(Configuration({{"learning_rat", 1}})).status, 400);
  const Answered next = Post(Configuration());
  ASSERT_EQ(next.status, 202) << next.body;
  EXPECT_NE(next.body["id"], id);
  Wait(next.body["id"], "done");
  EXPECT_TRUE(std::filesystem::exists(Path("jobs/" + id + "/output/model.safetensors")));
}

TEST_F(Service, CancelsAJob) {
  const Answered added = Post(Configuration({{"max_steps", 1000000}}));
  ASSERT_EQ(added.status, 202) << added.body;
  const std::string id = added.body["id"];
  Wait(id, "running");
  EXPECT_EQ(Take(client_->Delete(("/jobs/" + id).c_str())).status, 200);
  EXPECT_THAT(Wait(id, "cancelled")["error"].get<std::string>(), HasSubstr("cancelled"));
}

TEST_F(Service, RefusesWhatIsWrong) {
  EXPECT_EQ(Take(client_->Post("/jobs", "{oh", "application/json")).status, 400);
  EXPECT_EQ(Post(json::array()).status, 400);
  const Answered unknown = Post(Configuration({{"learning_rat", 1}}));
  EXPECT_EQ(unknown.status, 400);
  EXPECT_THAT(unknown.body["error"].get<std::string>(),
              HasSubstr("unknown key 'learning_rat' (did you mean 'learning_rate'?)"));
  EXPECT_EQ(Post(Configuration({{"model_name_or_path", "none"}})).status, 400);
  for (const char* key : {"model_name_or_path", "output_dir"}) {
    for (const char* path : {"/etc", "../../../../../../../../../../etc"}) {
      const Answered outside = Post(Configuration({{key, path}}));
      EXPECT_EQ(outside.status, 403) << key << outside.body;
      EXPECT_THAT(outside.body["error"].get<std::string>(), HasSubstr("is outside of the roots"))
          << key;
    }
  }
  std::string deep = "{\"model_name_or_path\": \"model\", \"lr_scheduler_kwargs\": ";
  for (const char bracket : {'[', ']'}) deep += std::string(150000, bracket);
  const Answered nested = Take(client_->Post("/jobs", deep + "}", "application/json"));
  EXPECT_EQ(nested.status, 400);
  EXPECT_THAT(nested.body["error"].get<std::string>(), HasSubstr("nested too deeply"));
  EXPECT_EQ(Take(client_->Post("/jobs", std::string(2 << 20, ' '), "application/json")).status,
            413);
  const Answered ranks = Post(Configuration({{"sequence_parallel_size", 2}}));
  EXPECT_EQ(ranks.status, 400) << ranks.body;
  EXPECT_THAT(ranks.body["error"].get<std::string>(), HasSubstr("an embedded runtime is one"));
  const Answered data = Post(Configuration({{"dataset_dir", "/etc"}}));
  EXPECT_EQ(data.status, 403) << data.body;
  EXPECT_THAT(data.body["error"].get<std::string>(), HasSubstr("is outside of the roots"));
  // An error that only a run can detect ends its job, not the service.
  const Answered cut = Post(Configuration({{"cutoff_len", 1}}));
  ASSERT_EQ(cut.status, 202) << cut.body;
  EXPECT_THAT(Wait(cut.body["id"], "failed")["error"].get<std::string>(),
              HasSubstr("cutoff_len 1 is too small"));
  EXPECT_EQ(Get("/jobs/99").status, 404);
  EXPECT_EQ(Take(client_->Delete("/jobs/99")).status, 404);
}

// Requests that a web page in a browser could send are rejected: a form or plain text, with its
// origin, or to a host name that it has redirected to this machine.
TEST_F(Service, RefusesOtherPages) {
  const std::string body = Configuration().dump(), here = "127.0.0.1:" + std::to_string(port_);
  for (const char* type :
       {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""}) {
    const Answered refused = Take(client_->Post("/jobs", body, type));
    EXPECT_EQ(refused.status, 415) << type;
    EXPECT_THAT(refused.body["error"].get<std::string>(), HasSubstr("application/json"));
  }
  const auto post = [&](const httplib::Headers& headers) {
    return Take(client_->Post("/jobs", headers, body, "application/json"));
  };
  for (const char* origin : {"http://example.org", "null", "http://127.0.0.1:1"}) {
    EXPECT_EQ(post({{"Origin", origin}}).status, 403) << origin;
    EXPECT_EQ(Take(client_->Get("/jobs", {{"Origin", origin}})).status, 403) << origin;
  }
  for (const std::string& host :
       {std::string("example.org"), "example.org:" + std::to_string(port_),
        std::string("127.0.0.1")}) {
    EXPECT_EQ(post({{"Host", host}}).status, 403) << host;
    EXPECT_EQ(Take(client_->Get("/jobs", {{"Host", host}})).status, 403) << host;
    EXPECT_EQ(Take(client_->Delete("/jobs/1", {{"Host", host}})).status, 403) << host;
  }
  EXPECT_EQ(Get("/jobs").body.size(), 0u);
  EXPECT_EQ(Take(client_->Post("/jobs", {{"Host", "localhost:" + std::to_string(port_)}}, "{oh",
                               "application/json; charset=utf-8"))
                .status,
            400);
  EXPECT_EQ(Take(client_->Get("/jobs", {{"Origin", "http://" + here}})).status, 200);
}

// A request that is contained in the body of a rejected request is not answered.
TEST_F(Service, ABodyIsNoRequest) {
  const std::string here = "Host: 127.0.0.1:" + std::to_string(port_) + "\r\n",
                    inner = "GET /jobs HTTP/1.1\r\n" + here + "\r\n";
  const std::string text =
      "POST /jobs HTTP/1.1\r\n" + here +
      "Content-Type: text/plain\r\nContent-Length: " + std::to_string(inner.size()) + "\r\n\r\n" +
      inner;
  const int caller = Call();
  ASSERT_EQ(write(caller, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t size; (size = read(caller, buffer, sizeof buffer)) > 0;) answer.append(buffer, size);
  close(caller);
  EXPECT_THAT(answer, HasSubstr("415"));
  EXPECT_EQ(answer.find("HTTP/1.1", 1), std::string::npos) << answer;
}

TEST_F(Service, KeepsTheLastThatHaveEnded) {
  Stop();
  Start({"--keep", "2"});
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) {
    ids.push_back(Post(Configuration({{"cutoff_len", 1}})).body["id"]);
    Wait(ids.back(), "failed");
  }
  EXPECT_EQ(Get("/jobs").body.size(), 2u);
  EXPECT_EQ(Get("/jobs/" + ids[0]).status, 404);
  EXPECT_EQ(Get("/jobs/" + ids[3]).status, 200);
}

TEST_F(Service, AJobHasItsShareOfTheMemory) {
  Stop();
  Start({"--memory", "4"});
  const Answered added = Post(Configuration(
      {{"cutoff_len", 4096}, {"per_device_train_batch_size", 64}, {"memory_check", "off"}}));
  const std::string error =
      added.status == 202 ? Wait(added.body["id"], "failed")["error"] : added.body["error"];
  EXPECT_THAT(error, AnyOf(HasSubstr("out of memory"), HasSubstr("no room for")));
  EXPECT_EQ(Get("/jobs").status, 200);
}

// Silent connections occupy the limited number of slots, and are closed after a while.
TEST_F(Service, AcceptsSoManyAtATime) {
  const auto descriptors = [this] {
    const std::filesystem::directory_iterator files("/proc/" + std::to_string(pid_) + "/fd");
    return std::distance(begin(files), end(files));
  };
  const auto before = descriptors();
  std::vector<int> callers;
  for (int i = 0; i < 36; ++i)
    callers.push_back(Call());  // as many as are accepted, and some that the kernel queues
  for (int i = 0; i < 20; ++i) {
    EXPECT_LE(descriptors() - before, 34);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  for (const int caller : callers) close(caller);
  EXPECT_EQ(Get("/jobs").status, 200);
}

}  // namespace
}  // namespace moonring::testing
