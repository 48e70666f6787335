// Fine-tuning over HTTP: service --root FOLDER [--port N] [--workers N] [--threads N]
//
//   POST   /jobs      a configuration as JSON -> 202 {"id": "1"}; 400 {"error": ..} where it is seen to be wrong, 403 where it names a file outside of the folder; what only
//                     the run can see (its data) ends the job, which then says so
//   GET    /jobs      all of them
//   GET    /jobs/ID   {"id", "status", "progress", "metrics", "error"}
//   DELETE /jobs/ID   cancels it
//
// It listens on 127.0.0.1 alone and asks nobody who they are: put what does in front of it. Paths are meant from the folder on. SIGINT and SIGTERM end it.

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <httplib.h>
#include <nlohmann/json.hpp>

#include "lua/examples/jobs.h"

namespace {

using nlohmann::json;

constexpr size_t kMostBytes = 1 << 20;  // of a request
constexpr int kMostNesting = 100;       // of its values: what is done with them goes a call deeper a level

void Answer(httplib::Response& response, int status, const json& body) {
  response.status = status;
  response.set_content(body.dump(2, ' ', false, json::error_handler_t::replace) + "\n", "application/json");
}

void Serve(httplib::Server& server, moonring::examples::Jobs& jobs) {
  server.set_payload_max_length(kMostBytes);
  server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (!response.body.empty()) return;
    const char* const why = response.status == 413 ? "the request is too long: 1 MiB at most, and 8 KiB without 'Content-Type: application/json'" : "no such request";
    Answer(response, response.status, {{"error", why}});
  });
  server.Post("/jobs", [&](const httplib::Request& request, httplib::Response& response) {
    bool too_deep = false;
    const auto take = [&](int depth, json::parse_event_t, json&) {
      too_deep = too_deep || depth > kMostNesting;
      return !too_deep;
    };
    const json configuration = json::parse(request.body, take, /*allow_exceptions=*/false);
    if (too_deep) return Answer(response, 400, {{"error", "the request's values are nested too deeply"}});
    if (configuration.is_discarded()) return Answer(response, 400, {{"error", "the request is not valid JSON"}});
    const auto added = jobs.Add(configuration);
    Answer(response, added.status, added.error.empty() ? json{{"id", added.id}} : json{{"error", added.error}});
  });
  server.Get("/jobs", [&](const httplib::Request&, httplib::Response& response) { Answer(response, 200, jobs.DescribeAll()); });
  server.Get(R"(/jobs/(\d+))", [&](const httplib::Request& request, httplib::Response& response) {
    const json job = jobs.Describe(request.matches[1].str());
    Answer(response, job.is_null() ? 404 : 200, job.is_null() ? json{{"error", "no such job"}} : job);
  });
  server.Delete(R"(/jobs/(\d+))", [&](const httplib::Request& request, httplib::Response& response) {
    const bool there = jobs.Cancel(request.matches[1].str());
    Answer(response, there ? 200 : 404, there ? jobs.Describe(request.matches[1].str()) : json{{"error", "no such job"}});
  });
}

int Usage() {
  std::fprintf(stderr, "usage: service --root FOLDER [--port N] [--workers N] [--threads N]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  moonring::examples::JobsOptions options;
  int port = 0;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) return Usage();
    if (name == "--root") {
      options.root = std::filesystem::absolute(argv[i + 1]);
    } else if (name == "--port" || name == "--workers" || name == "--threads") {
      const int number = std::atoi(argv[i + 1]);
      if (number < 0 || number > 65535 || (name == "--workers" && number < 1)) return Usage();
      (name == "--port" ? port : name == "--workers" ? options.workers : options.threads) = number;
    } else {
      return Usage();
    }
  }
  if (options.root.empty()) return Usage();
  if (chdir(options.root.c_str()) != 0) {
    std::fprintf(stderr, "service: cannot change to %s\n", options.root.c_str());
    return 2;
  }

  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // before any thread, so that all have it: one waits for them below

  moonring::examples::Jobs jobs(options);
  httplib::Server server;
  Serve(server, jobs);
  if (port == 0) {
    port = server.bind_to_any_port("127.0.0.1");
  } else if (!server.bind_to_port("127.0.0.1", port)) {
    port = -1;
  }
  if (port < 0) {
    std::fprintf(stderr, "service: the port cannot be listened on\n");
    return 1;
  }
  std::printf("listening on http://127.0.0.1:%d\n", port);
  std::fflush(stdout);
  std::thread listener([&] { server.listen_after_bind(); });
  int signal = 0;
  sigwait(&ends, &signal);
  server.stop();
  listener.join();
  return 0;
}
