// Fine-tuning over HTTP:
//
//   service --root FOLDER [--port N] [--workers N] [--threads N] [--memory MIB] [--keep N]
//
//   POST   /jobs      Body: a configuration as JSON. 202 {"id": "1"}. 400 {"error": ..} for an
//                     invalid configuration, 403 if it names a file outside of the folder, 429 if
//                     too many jobs are waiting. Errors in the data are found later, by the job.
//   GET    /jobs      all jobs that wait or run, and the last ones that ended (--keep, default
//                     1000)
//   GET    /jobs/ID   {"id", "status", "progress", "metrics", "error"}
//   DELETE /jobs/ID   cancels it
//
// The service listens on 127.0.0.1 only and has no authentication: put a proxy that authenticates
// in front of it. Web pages in a local browser are kept out: a request must have 127.0.0.1 or
// localhost as its Host, no other Origin, and with a body the type application/json. A job may use
// --memory MiB for tensors and the Lua heap (default: the machine's memory, divided among the
// workers and one check). Paths are relative to the folder. SIGINT and SIGTERM end the service.

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>

#include <httplib.h>
#include <nlohmann/json.hpp>

#include "lua/examples/jobs.h"

namespace {

using nlohmann::json;

constexpr size_t kMostBytes = 1 << 20;  // of a request's body
constexpr int kMostNesting = 100;       // depth of nested values; they are read recursively

constexpr int kAtATime = 8;  // requests that are answered at the same time
constexpr int kOpen = 32;    // including those that wait; further connections are not accepted

// httplib's thread pool with a bounded queue.
class BoundedPool : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> answer) override {
    places_.acquire();
    pool_.enqueue([this, answer = std::move(answer)] {
      const std::unique_ptr<BoundedPool, GiveBack> place(this);
      answer();
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  struct GiveBack {
    void operator()(BoundedPool* pool) const { pool->places_.release(); }
  };
  std::counting_semaphore<kOpen> places_{kOpen};
  httplib::ThreadPool pool_{kAtATime};
};

void Answer(httplib::Response& response, int status, const json& body) {
  response.status = status;
  response.set_content(body.dump(2, ' ', false, json::error_handler_t::replace) + "\n",
                       "application/json");
}

std::string MediaType(const httplib::Request& request) {
  std::string type = request.get_header_value("Content-Type");
  type.resize(std::min(type.find(';'), type.size()));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return type;
}

// Refuses requests that web pages send. A browser can send a page's requests to any address, but
// adds the page's origin (header Origin). With DNS rebinding, where a foreign name resolves to this
// machine, the header Host contains that name.
bool Refuse(const httplib::Request& request, httplib::Response& response, int port) {
  const std::string host = request.get_header_value("Host"),
                    origin = request.get_header_value("Origin");
  const std::string at = ":" + std::to_string(port);
  if (host != "127.0.0.1" + at && host != "localhost" + at) {
    Answer(response, 403,
           {{"error", "the request is for '" + host + "', and this is 127.0.0.1" + at}});
  } else if (request.has_header("Origin") && origin != "http://" + host) {
    Answer(response, 403, {{"error", "the request comes from another origin, '" + origin + "'"}});
  } else if (request.method == "POST" && MediaType(request) != "application/json") {
    Answer(response, 415, {{"error", "expected 'Content-Type: application/json'"}});
  } else {
    return false;
  }
  return true;
}

void Serve(httplib::Server& server, moonring::examples::Jobs& jobs, const int& port) {
  server.new_task_queue = [] { return new BoundedPool; };
  // One request for each connection: a refused request's unread body must not be parsed as the next
  // request.
  server.set_keep_alive_max_count(1);
  server.set_payload_max_length(kMostBytes);
  server.set_pre_routing_handler(
      [&port](const httplib::Request& request, httplib::Response& response) {
        return Refuse(request, response, port) ? httplib::Server::HandlerResponse::Handled
                                               : httplib::Server::HandlerResponse::Unhandled;
      });
  server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (!response.body.empty()) return;
    const char* const why =
        response.status == 413 ? "the request is too long: 1 MiB at most" : "no such request";
    Answer(response, response.status, {{"error", why}});
  });
  server.Post("/jobs", [&](const httplib::Request& request, httplib::Response& response) {
    bool too_deep = false;
    const auto take = [&](int depth, json::parse_event_t, json&) {
      too_deep = too_deep || depth > kMostNesting;
      return !too_deep;
    };
    const json configuration = json::parse(request.body, take, /*allow_exceptions=*/false);
    if (too_deep)
      return Answer(response, 400, {{"error", "the request's values are nested too deeply"}});
    if (configuration.is_discarded())
      return Answer(response, 400, {{"error", "the request is not valid JSON"}});
    const auto added = jobs.Add(configuration);
    Answer(response, added.status,
           added.error.empty() ? json{{"id", added.id}} : json{{"error", added.error}});
  });
  server.Get("/jobs", [&](const httplib::Request&, httplib::Response& response) {
    Answer(response, 200, jobs.DescribeAll());
  });
  server.Get(R"(/jobs/(\d+))", [&](const httplib::Request& request, httplib::Response& response) {
    const json job = jobs.Describe(request.matches[1].str());
    Answer(response, job.is_null() ? 404 : 200,
           job.is_null() ? json{{"error", "no such job"}} : job);
  });
  server.Delete(
      R"(/jobs/(\d+))", [&](const httplib::Request& request, httplib::Response& response) {
        const bool there = jobs.Cancel(request.matches[1].str());
        Answer(response, there ? 200 : 404,
               there ? jobs.Describe(request.matches[1].str()) : json{{"error", "no such job"}});
      });
}

int Usage() {
  std::fprintf(stderr,
               "usage: service --root FOLDER [--port N] [--workers N] [--threads N] [--memory MIB] "
               "[--keep N]\n");
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
    } else if (name == "--port" || name == "--workers" || name == "--threads" ||
               name == "--memory" || name == "--keep") {
      const int number = std::atoi(argv[i + 1]);
      const bool counts = name == "--workers" || name == "--memory";
      if (number < (counts ? 1 : 0) || (number > 65535 && name != "--memory")) return Usage();
      if (name == "--memory") options.memory = int64_t{number} << 20;
      if (name == "--keep") options.most_finished = number;
      if (name == "--port") port = number;
      if (name == "--workers") options.workers = number;
      if (name == "--threads") options.threads = number;
    } else {
      return Usage();
    }
  }
  if (options.root.empty()) return Usage();
  if (options.memory == 0)
    options.memory =
        int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE) / (options.workers + 1);
  moonring_count_memory();  // before any thread creates a tensor
  if (chdir(options.root.c_str()) != 0) {
    std::fprintf(stderr, "service: cannot change to %s\n", options.root.c_str());
    return 2;
  }

  // Blocked before any thread starts, so that all threads block the signals; sigwait below takes
  // them.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  moonring::examples::Jobs jobs(options);
  httplib::Server server;
  Serve(server, jobs, port);
  if (port == 0) {
    port = server.bind_to_any_port("127.0.0.1");
  } else if (!server.bind_to_port("127.0.0.1", port)) {
    port = -1;
  }
  if (port < 0) {
    std::fprintf(stderr, "service: the port cannot be listened on\n");
    return 1;
  }
  std::atomic<bool> ended = false;
  std::thread listener([&] {
    server.listen_after_bind();
    ended = true;
  });
  // The loop waits until the server runs, because server.stop() would have no effect before.
  while (!server.is_running() && !ended) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::printf("listening on http://127.0.0.1:%d\n", port);
  std::fflush(stdout);
  int signal = 0;
  sigwait(&ends, &signal);
  server.stop();
  listener.join();
  return 0;
}
