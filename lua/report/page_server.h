#ifndef MOONRING_LUA_REPORT_PAGE_SERVER_H_
#define MOONRING_LUA_REPORT_PAGE_SERVER_H_

// A local HTTP/1.1 server on 127.0.0.1 for a page in browsers on this machine (HttpServer). The
// query of an address must contain the server's token: http://127.0.0.1:PORT/?token=TOKEN
//
// The token is 32 random hexadecimal digits, new for each server, and compared in constant time. A
// request is refused (403) if the token is missing or wrong; if its Host header is neither
// localhost nor a loopback address, with any port (protection against DNS rebinding; the port may
// differ because of tunnels); and if it has an Origin header of another site. Methods other than
// GET and POST get 405, and a body of more than 1 MiB gets 413. A body is read only after these
// checks.
//
// An answer is complete (Reply), or it is sent in parts (Begin, Send, Finish) with the transfer
// coding `chunked`.
//
// Requests are read and answers are sent on a thread of the server; Next takes the requests, one
// after the other, on the caller's. After Listen, SIGINT, SIGTERM and SIGHUP make Next return
// instead of ending the process, until the server is destroyed. At most 32 connections are open; a
// connection that is silent for 30 seconds is closed. If a new connection needs room, the oldest
// one is closed, preferably one that has not sent the token.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::lua {

class PageServer {
 public:
  struct Request {
    int64_t id = 0;
    bool is_post = false;
    std::string path;  // such as "/", without the query
    std::string tag;   // the browser's If-None-Match header; "": none
    // The query without the token, in order, decoded.
    std::vector<std::pair<std::string, std::string>> query;
    std::string type, body;  // the Content-Type header and the body of a POST
  };
  struct Answer {
    int status = 200;
    std::string type, body;
    std::string tag;  // entity tag of the body, without quotes; "": none
  };

  // Starts to listen on 127.0.0.1. Port 0: any free port. UNAVAILABLE if the port is in use or not
  // permitted.
  static absl::StatusOr<std::unique_ptr<PageServer>> Listen(int port);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  int port() const;
  const std::string& token() const;

  // Waits for the next request with the right token; nullopt after this many seconds or a signal.
  std::optional<Request> Next(double seconds);
  // Sends an answer; does nothing if the client has disconnected.
  void Reply(int64_t id, Answer answer);

  // Begins an answer that is sent in parts.
  void Begin(int64_t id, std::string type);
  // Sends a part of such an answer. Returns false once the client has disconnected, or has not read
  // the last megabyte: then nothing is sent.
  bool Send(int64_t id, absl::string_view part);
  void Finish(int64_t id);

  // The first signal received since Listen; 0: none.
  int signal() const;

 private:
  class Impl;
  explicit PageServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_REPORT_PAGE_SERVER_H_
