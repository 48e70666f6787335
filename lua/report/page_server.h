#ifndef MOONRING_LUA_REPORT_PAGE_SERVER_H_
#define MOONRING_LUA_REPORT_PAGE_SERVER_H_

// A page for browsers of this machine, by HTTP/1.1 on 127.0.0.1 (Boost.Beast).
//
//   GET /PATH?token=TOKEN    answered by whoever calls Next
//
// The token is 32 random hexadecimal digits, new in each server, and compared in constant time. A
// request is refused (403) without it; where its Host is another name than localhost or a loopback
// address, as a name has that someone has pointed here to (DNS rebinding), with any port, which a
// tunnel changes; and where it says that it comes from another origin. Other methods than GET: 405.
//
// Nothing runs but inside of Next, on the caller's thread. From Listen on SIGINT, SIGTERM and
// SIGHUP end Next instead of the process, until the server goes. 32 connections at a time; one that
// is silent for 30 seconds is closed, and sooner where another one comes: the oldest without the
// token first.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace moonring::lua {

class PageServer {
 public:
  struct Request {
    int64_t id = 0;
    std::string path;  // "/", without the query
    std::string tag;   // of what the browser has (If-None-Match); "": nothing
  };
  struct Answer {
    int status = 200;
    std::string type, body;
    std::string tag;  // of the body, without quotes; "": none
  };

  // Port 0: any that is free. UNAVAILABLE where the port is taken or not to be had.
  static absl::StatusOr<std::unique_ptr<PageServer>> Listen(int port);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  int port() const;
  const std::string& token() const;

  // The next request that is not refused; nothing where none came in so many seconds, or a signal.
  // Answers go out while this waits.
  std::optional<Request> Next(double seconds);
  // Nothing where who asked has gone.
  void Reply(int64_t id, Answer answer);
  // The first signal that came; 0: none.
  int signal() const;

 private:
  class Impl;
  explicit PageServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_REPORT_PAGE_SERVER_H_
