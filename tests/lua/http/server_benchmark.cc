// Requests per second of HttpServer on connections that are kept alive, and the speed of large
// bodies and answers. The clients run on threads of the same process.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "benchmark/benchmark.h"
#include "lua/http/server.h"
#include "tests/lua/http/raw_client.h"

namespace moonring::testing {
namespace {

using lua::HttpServer;

// Answers each request with 64 bytes, and /large with as many bytes as the request's body has.
class Answering {
 public:
  Answering() {
    server_ =
        HttpServer::Listen({.most_body_bytes = uint64_t{1} << 30,
                            .most_waiting_bytes = uint64_t{1} << 30,
                            .handle =
                                [this](HttpServer::Request request) {
                                  const bool is_large = absl::StartsWith(request.path, "/large");
                                  at_->Reply(request.id, {.type = "application/json",
                                                          .body = is_large ? std::move(request.body)
                                                                           : std::string(64, 'x')});
                                }})
            .value();
    at_ = server_.get();
  }
  int port() const { return at_->port(); }

 private:
  HttpServer* at_ = nullptr;
  std::unique_ptr<HttpServer> server_;
};

// Each of several clients sends small requests, one after the other.
void SmallRequests(benchmark::State& state) {
  const int count = static_cast<int>(state.range(0));
  constexpr int kRequests = 2000;  // of all clients
  const Answering server;
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < count; ++i) clients.push_back(std::make_unique<RawClient>(server.port()));
  const std::string request = PostText("/api/v1/retrieve_future", std::string(100, 'x'),
                                       "X-API-Key: tml-0123456789\r\nAccept: application/json\r\n");
  for (auto _ : state) {
    for (int i = 0; i < kRequests / count; ++i) {
      for (const auto& client : clients) client->Send(request);
      for (const auto& client : clients) {
        if (client->Read().status != 200) state.SkipWithError("a request was not answered");
      }
    }
  }
  state.SetItemsProcessed(state.iterations() * kRequests);
}
BENCHMARK(SmallRequests)->Arg(1)->Arg(10)->Arg(200)->MeasureProcessCPUTime()->UseRealTime();

void LargeBodies(benchmark::State& state) {
  const Answering server;
  RawClient client(server.port());
  const std::string request = PostText("/", std::string(state.range(0) << 20, 'x'));
  for (auto _ : state) {
    if (client.Ask(request).status != 200) state.SkipWithError("a request was not answered");
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(request.size()));
}
BENCHMARK(LargeBodies)->Arg(1)->Arg(64)->MeasureProcessCPUTime()->UseRealTime();

void LargeBodiesAndAnswers(benchmark::State& state) {
  const Answering server;
  RawClient client(server.port());
  const std::string request = PostText("/large", std::string(state.range(0) << 20, 'x'));
  for (auto _ : state) {
    if (client.Ask(request).status != 200) state.SkipWithError("a request was not answered");
  }
  state.SetBytesProcessed(state.iterations() * 2 * static_cast<int64_t>(request.size()));
}
BENCHMARK(LargeBodiesAndAnswers)->Arg(64)->MeasureProcessCPUTime()->UseRealTime();

}  // namespace
}  // namespace moonring::testing

BENCHMARK_MAIN();
