#ifndef MOONRING_LUA_HTTP_HTTP_H_
#define MOONRING_LUA_HTTP_HTTP_H_

// Requests by HTTP and HTTPS, several at once on one thread (libcurl's multi interface).
//
// A redirect is followed here, so that what is sent where is plain: the token goes to the scheme,
// host and port of the request's own address alone, and never from https to http; what is posted
// goes nowhere else at all. Certificates are checked: by the system's, or by a file or a folder
// that REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE names. Proxies are those of the
// environment, as libcurl reads it, but for this machine's own addresses.
//
// An answer of any code is an answer. Fails with UNAVAILABLE for a connection that breaks,
// DEADLINE_EXCEEDED for one that stands still, NOT_FOUND where there is none to be had (no such
// host, refused), FAILED_PRECONDITION for a certificate that is not trusted, INVALID_ARGUMENT for
// what is no address, RESOURCE_EXHAUSTED for a body that is too long, CANCELLED, and as the
// request's own functions do.

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lua/http/curl_library.h"

namespace moonring::lua {

struct HttpAnswer {
  int code = 0;
  std::string reason;                          // "OK"; "" where the server says none
  std::map<std::string, std::string> headers;  // names in small letters; of the last answer
  std::string body;  // where no function took it; of an error the first 64 KiB
  std::string url;   // whose answer it is

  std::string header(const std::string& name) const {  // "" where it is not there
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

struct HttpRequest {
  std::string url;
  bool head = false;                // the headers alone
  std::optional<std::string> json;  // is posted
  std::string token;
  bool follows_elsewhere = true;  // else a redirect that names a host is the answer
  int64_t first = 0, last = -1;   // bytes that are wanted; last -1: to the end
  double connect_seconds = 10, idle_seconds = 10;
  int64_t most_bytes = int64_t{256} << 20;                       // of a body that no function takes
  std::function<absl::Status(const HttpAnswer&)> on_head;        // of a body that on_body takes
  std::function<absl::Status(absl::string_view bytes)> on_body;  // of 2xx alone
};

class Http {
 public:
  using Done = std::function<void(absl::StatusOr<HttpAnswer>)>;

  static absl::StatusOr<std::unique_ptr<Http>> Open();
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  // `done` is called by Run, once.
  void Start(HttpRequest request, Done done);
  // Goes on with all that was started, for about so long, less where something comes to an end.
  void Run(std::chrono::milliseconds most);
  // Gives up all that was started; no `done` is called.
  void Drop();

  // One request to its end, while no other is open. `stop` is asked some ten times a second.
  absl::StatusOr<HttpAnswer> Ask(HttpRequest request, absl::FunctionRef<bool()> stop);

 private:
  struct Exchange;

  Http(CurlLibrary curl, CURLM* multi, std::string certificates);
  void Send(Exchange& exchange);
  void Finish(Exchange& exchange, CURLcode code);
  // Whether the answer was a redirect that is followed.
  bool Follow(Exchange& exchange);
  absl::Status Failure(const Exchange& exchange, CURLcode code) const;
  void Release(Exchange& exchange);

  CurlLibrary curl_;
  CURLM* multi_;
  std::string certificates_;
  std::list<std::unique_ptr<Exchange>> exchanges_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HTTP_HTTP_H_
