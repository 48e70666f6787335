#ifndef MOONRING_LUA_HTTP_SERVER_OPTIONS_H_
#define MOONRING_LUA_HTTP_SERVER_OPTIONS_H_

// The types of HttpServer's interface (server.h), where each is also named without `Server`.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace moonring::lua {

using ServerHeaders = std::vector<std::pair<std::string, std::string>>;

struct ServerRequest {
  int64_t id = 0;  // 0 in `check`
  std::string method;
  std::string path;                                        // decoded, without the query
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in order
  // Names in lower case; the values of a repeated header are joined by ", ".
  std::map<std::string, std::string> headers;
  std::string body;  // empty in `check`
};

struct ServerResponse {
  int status = 200;
  std::string type, body;  // without a type: no Content-Type
  ServerHeaders headers = {};
};

struct ServerOptions {
  std::string host = "127.0.0.1";  // an IP address, or localhost
  int port = 0;                    // 0: any free port
  size_t most_connections = 512;
  uint64_t most_body_bytes = uint64_t{64} << 20;
  // Limit of all bodies together, from a request's header until its answer begins.
  uint64_t most_waiting_bytes = uint64_t{512} << 20;
  std::chrono::seconds silence{60};

  // All functions are called on the server's thread, and none after Stop. They must not block: no
  // other connection makes progress meanwhile. An exception of `check` or `handle` becomes an
  // answer with status 500.
  //
  // Called when the header is complete, before the body is read. A response refuses the request.
  std::function<std::optional<ServerResponse>(const ServerRequest&)> check = nullptr;
  // Called with the whole request. It may call Reply itself.
  std::function<void(ServerRequest)> handle = nullptr;
  // Called at most once, if the client has disconnected before Reply or Finish. A client that has
  // only shut down its sending side cannot be distinguished from that: a Reply within two seconds
  // is still sent.
  std::function<void(int64_t id)> vanished = nullptr;

  size_t most_header_bytes = size_t{32} << 10;
  std::vector<std::string> methods = {"GET", "POST", "PUT", "DELETE"};
  // Bytes of an answer in parts that the client has not read yet.
  size_t most_unread_bytes = size_t{1} << 20;
  ServerHeaders headers = {};  // sent with every answer
  // Formats the server's own refusals. nullopt: the connection is closed without an answer.
  std::function<std::optional<ServerResponse>(int status, const std::string& why)> refuse = nullptr;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HTTP_SERVER_OPTIONS_H_
