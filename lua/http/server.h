#ifndef MOONRING_LUA_HTTP_SERVER_H_
#define MOONRING_LUA_HTTP_SERVER_H_

// An HTTP/1.1 server on a thread of its own (Boost.Beast's parser, Boost.Asio). It knows no routes:
// `check` sees the header of a request, `handle` the whole request, and any thread may answer it
// later. A request that waits for its answer costs one socket, and no thread.
//
// Connections are kept alive. Requests that a client sends ahead of an answer (pipelining) are
// handled one after the other. Bodies may be chunked, and are read only after `check`, which
// `Expect: 100-continue` waits for. An answer is complete (Reply), or it is sent in parts (Begin,
// Send, Finish) with the transfer coding `chunked`; to an HTTP/1.0 client the parts are sent
// without it, and its connection is closed after the last one.
//
// Refusals of the server itself have a JSON body {"detail": ".."} unless Options::refuse is set:
// 400 for what is not HTTP, 405 for other methods, 408 for a slow header or body, 413 and 431 for a
// body or header over its limit, 417 for an unknown expectation, and 503 with `Retry-After` if
// all bodies together would exceed most_waiting_bytes or if every connection is busy. A connection
// is closed after such a refusal, and after a refusal by `check` of a request with a body.
//
// Deadlines, each `silence`: for the next request on an idle connection (closed without an answer),
// for a whole header after its first byte, for the next 64 KiB of a body or its end, and for a
// client to read a part of its answer. A request that waits for its answer has no deadline. If a
// new connection needs room, one that waits for a request is closed: the oldest on which no request
// has passed `check`, else the oldest.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lua/http/server_options.h"

namespace moonring::lua {

class HttpServer {
 public:
  using Headers = ServerHeaders;
  using Request = ServerRequest;
  using Response = ServerResponse;
  using Options = ServerOptions;

  // Starts to listen. INVALID_ARGUMENT for options that contradict each other; UNAVAILABLE if the
  // port is in use or not permitted.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(Options options);
  // The error that Listen would return for this address, which stays free.
  static absl::Status CheckAddress(const std::string& host, int port);
  ~HttpServer();  // calls Stop
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Closes all connections and ends the thread: after it, no function of the options is called.
  // Answers given before are still sent, for at most one second. Must not be called on the server's
  // thread. An owner whose functions use its pointer to the server calls this before it resets the
  // pointer; in the same way, its functions may be called before Listen has returned.
  void Stop();

  int port() const;

  // All of these may be called from any thread, also during Stop and after it. Answers to a
  // request that has been answered or whose client has left do nothing.
  void Reply(int64_t id, Response response);
  // Begins an answer with status 200 that is sent in parts.
  void Begin(int64_t id, std::string type);
  // Sends a part of it. Returns false once the client has left, or if it has not read the last
  // most_unread_bytes: then nothing is sent.
  bool Send(int64_t id, absl::string_view part);
  void Finish(int64_t id);
  // Calls a function on the server's thread, as soon as possible or after a time.
  void Post(std::function<void()> function);
  void After(std::chrono::milliseconds delay, std::function<void()> function);

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HTTP_SERVER_H_
