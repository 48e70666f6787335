#ifndef MOONRING_LUA_SERVE_SERVICE_H_
#define MOONRING_LUA_SERVE_SERVICE_H_

// The door of `moonring serve`: receives the requests of clients on a thread of its own
// (lua/http/server.h), answers at once what it knows, and hands everything else as jobs to the
// model's thread, which may compute for hours meanwhile.
//
//   promises   requests that compute: the client gets an id at once, and polls for the result
//              (promises.h). They are in the journal FOLDER/journal, and outlive the process.
//   held       requests of OpenAI's API, and a few others: the client waits for the answer.
//   facts      answered at once from what the model's thread has published (registry.h).
//
// routes.h lists all requests. Every request must send the key; if the service listens on a
// loopback address, its Host header must name one; an Origin header must be absent or the service's
// own.
//
// Requests that come before the first call of Next wait for it: by then the model's thread has
// published what it knows from earlier processes.
//
// Next, Done, Fail, Reply, ... are for the model's thread; they are thread-safe.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lua/serve/promises.h"

namespace moonring::serve {

class ServiceImpl;  // service_impl.h

class Service {
 public:
  struct BaseModel {
    std::vector<std::string> names;  // the first one is shown to clients
    int64_t max_context_length = 0;
    bool trainable = true, sampleable = true;
  };
  struct Options {
    std::string host = "127.0.0.1";
    int port = 0;  // 0: any free port
    std::string key;
    std::string folder;  // must exist
    // Folder with MODEL/NAME/FILE, which clients may download if there is a fact "weights" of
    // tinker://MODEL/external_weights/NAME; "": none.
    std::string external;
    std::vector<BaseModel> base_models;
    // For each model with a state on disk, the last seq_id in it.
    std::map<std::string, int64_t> states;
    std::chrono::milliseconds poll{20'000};        // how long a poll waits for a result
    std::chrono::seconds session_silence{10'800};  // after which a session ends
    Promises::Options promises;
  };
  struct Delivery : Job {
    bool held = false;
    std::string weights;  // of a sample: a base model, a tinker:// path, or the sampling session
  };

  // The error that Open would return for this address, before anything is loaded or written.
  static absl::Status CheckAddress(const std::string& host, int port);

  // UNAVAILABLE if the port is in use; INVALID_ARGUMENT if the journal is not one; errors of the
  // file system.
  static absl::StatusOr<std::unique_ptr<Service>> Open(Options options);
  // Stops listening. Promises without a result stay in the journal.
  ~Service();

  int port() const;
  // Lines for the terminal since the last call: what the journal dropped, errors of writing it,
  // sessions that have ended.
  std::vector<std::string> TakeNotes();

  std::optional<Delivery> Next(Promises::Clock::duration wait, const std::set<std::string>& routes);
  // For promises: the result, or the failure (`category`: "user" or "server").
  void Done(const std::string& id, std::string body, std::string type);
  void Fail(const std::string& id, std::string message, std::string category);

  // For held requests: the whole answer (Reply), or an answer in parts (Begin, Send, Finish). Send
  // returns false once the client has left, or has too much unread (lua/http/server.h).
  void Reply(const std::string& id, int status, std::string type, std::string body);
  void Begin(const std::string& id, std::string type);
  bool Send(const std::string& id, absl::string_view part);
  void Finish(const std::string& id);
  bool IsGone(const std::string& id) const;

  void Publish(const std::string& kind, const std::string& id, std::string json);
  void Withdraw(const std::string& kind, const std::string& id);
  // The process is about to end because it was asked to (Promises::Interrupt).
  void Interrupt();
  // A model's state is on disk, up to this seq_id.
  absl::Status Saved(const std::string& model, int64_t seq);

 private:
  explicit Service(std::unique_ptr<ServiceImpl> impl);
  std::unique_ptr<ServiceImpl> impl_;
};

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_SERVICE_H_
