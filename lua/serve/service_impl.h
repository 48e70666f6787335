#ifndef MOONRING_LUA_SERVE_SERVICE_IMPL_H_
#define MOONRING_LUA_SERVE_SERVICE_IMPL_H_

// The implementation of a service (service.h). Its functions for requests are in request_routes.cc
// (those that become jobs), question_routes.cc (those that are answered at once) and
// external_routes.cc (downloads); routes.h lists them.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/store/secret.h"
#include "lua/http/server.h"
#include "lua/serve/body_json.h"
#include "lua/serve/journal.h"
#include "lua/serve/promises.h"
#include "lua/serve/registry.h"
#include "lua/serve/routes.h"
#include "lua/serve/service.h"

namespace moonring::serve {

class ServiceImpl {
 public:
  using Asked = lua::HttpServer::Request;
  using Response = lua::HttpServer::Response;
  // An answer; nullopt: it follows later. A status becomes a refusal.
  using Answer = absl::StatusOr<std::optional<Response>>;

  explicit ServiceImpl(Service::Options options) : options_(std::move(options)) {}
  ~ServiceImpl();

  absl::Status Open();

  // Questions, answered at once.
  Answer Health(const Asked& asked, const Match& match);
  Answer ClientConfig(const Asked& asked, const Match& match);
  Answer DynamicConfig(const Asked& asked, const Match& match);
  Answer Telemetry(const Asked& asked, const Match& match);
  Answer Capabilities(const Asked& asked, const Match& match);
  Answer CreateSession(const Asked& asked, const Match& match);
  Answer Heartbeat(const Asked& asked, const Match& match);
  Answer FinishSession(const Asked& asked, const Match& match);
  Answer CreateSampler(const Asked& asked, const Match& match);
  Answer SamplerInfo(const Asked& asked, const Match& match);
  Answer ModelInfo(const Asked& asked, const Match& match);
  Answer WeightsInfo(const Asked& asked, const Match& match);
  Answer RunInfo(const Asked& asked, const Match& match);
  Answer Runs(const Asked& asked, const Match& match);
  Answer Checkpoints(const Asked& asked, const Match& match);
  Answer ExternalUrls(const Asked& asked, const Match& match);
  Answer ExternalFile(const Asked& asked, const Match& match);
  Answer OpenAiModels(const Asked& asked, const Match& match);
  Answer NotOffered(const Asked& asked, const Match& match);

  // Requests that become jobs, and their results.
  Answer Create(const Asked& asked, const Match& match);
  Answer Loss(const Asked& asked, const Match& match);
  Answer OfModel(const Asked& asked, const Match& match);
  Answer Sample(const Asked& asked, const Match& match);
  Answer Hold(const Asked& asked, const Match& match);
  Answer DeleteCheckpoint(const Asked& asked, const Match& match);
  Answer Retrieve(const Asked& asked, const Match& match);
  Answer Cancel(const Asked& asked, const Match& match);

  const Service::Options& options() const { return options_; }
  Promises& promises() { return *promises_; }
  Registry& registry() { return *registry_; }
  lua::HttpServer& server() { return *server_; }
  bool IsGone(const std::string& id);
  void Forget(const std::string& id);  // a held request that was answered
  // The model's thread has published what it knows of earlier processes. Requests wait for that.
  void BeReady();
  void Note(std::string line);
  std::vector<std::string> TakeNotes();

 private:
  // A poll that waits for a result.
  struct Poll {
    std::string promise;
    bool takes_json = false;      // rather than protobuf
    bool takes_metadata = false;  // for a large result its size is enough
  };

  std::optional<Response> Check(const Asked& asked) const;
  bool HasFileToken(absl::string_view path) const;
  void Handle(const Asked& asked);
  Response Refusal(const absl::string_view path, int status, absl::string_view why) const;
  std::optional<Response> ResultOf(const Poll& poll);
  Answer Accept(Request request, const Asked& asked);
  absl::Status CheckSession(const std::string& session);
  void TellPolls(const std::string& promise);
  void Leave(int64_t http);
  void EndSession(const std::string& session);
  void Tidy();

  const Service::Options options_;
  const std::string file_token_ = comm::RandomHex(16);  // of the addresses of downloads
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<Promises> promises_;
  // On the server's thread:
  std::map<int64_t, Poll> polls_;  // by HTTP request
  std::vector<Asked> early_;       // requests that came before the service was ready
  bool ready_ = false;

  std::atomic<bool> begun_ = false;  // the model's thread has asked for a job

  std::mutex mutex_;  // guards the following members
  std::set<int64_t> held_, gone_;
  std::vector<std::string> notes_;

  std::unique_ptr<lua::HttpServer> server_;  // the last member: its thread uses the others
};

// JSON as an answer.
ServiceImpl::Response JsonResponse(const Json& body, int status = 200);

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_SERVICE_IMPL_H_
