#ifndef MOONRING_LUA_HTTP_HTTP_H_
#define MOONRING_LUA_HTTP_HTTP_H_

// HTTP and HTTPS requests, several at once on one thread (libcurl's multi interface).
//
// Redirects are followed here and not by libcurl, so that this code controls which data is sent to
// which server. The access token is only sent to the scheme, host and port of the request's
// original address, and never from https to http; a posted body is never sent to another address.
// Certificates are verified against the system's, or against a file or folder named by
// REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE. Proxies come from the environment, as in
// libcurl, but are not used for addresses of this machine.
//
// An answer with any status code is a success here. Errors: UNAVAILABLE for a broken connection,
// DEADLINE_EXCEEDED for a connection without progress, NOT_FOUND if no connection is possible
// (unknown host, refused), FAILED_PRECONDITION for an untrusted certificate, INVALID_ARGUMENT for
// an invalid address, RESOURCE_EXHAUSTED for a body that is too long, CANCELLED, and the errors
// that the request's callbacks return.

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
  std::string reason;  // reason phrase such as "OK"; "" if the server sends none
  std::map<std::string, std::string> headers;  // lower-case names; from the last answer
  std::string body;  // empty if on_body received it; of an error only the first 64 KiB
  std::string url;   // final address, after redirects

  std::string header(const std::string& name) const {  // "" if absent
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

struct HttpRequest {
  std::string url;
  bool head = false;                // only request the headers
  std::optional<std::string> json;  // body to POST
  std::string token;
  bool follows_elsewhere = true;  // false: a redirect with a host name is returned as the answer
  int64_t first = 0, last = -1;   // requested byte range; last -1: to the end
  double connect_seconds = 10, idle_seconds = 10;
  int64_t most_bytes = int64_t{256} << 20;                       // limit for a body without
                                                                 // callback
  std::function<absl::Status(const HttpAnswer&)> on_head;        // called before on_body
  std::function<absl::Status(absl::string_view bytes)> on_body;  // only for status 2xx
};

class Http {
 public:
  using Done = std::function<void(absl::StatusOr<HttpAnswer>)>;

  static absl::StatusOr<std::unique_ptr<Http>> Open();
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  // Starts a request. Run calls `done` once, when the request has ended.
  void Start(HttpRequest request, Done done);
  // Processes all started requests for about `most`, or until one of them ends.
  void Run(std::chrono::milliseconds most);
  // Aborts all started requests without calling `done`.
  void Drop();

  // Processes one request until it ends. No other request may be active. `stop` is called about ten
  // times a second; if it returns true, the request ends with CANCELLED.
  absl::StatusOr<HttpAnswer> Ask(HttpRequest request, absl::FunctionRef<bool()> stop);

 private:
  struct Exchange;

  Http(CurlLibrary curl, CURLM* multi, std::string certificates);
  void Send(Exchange& exchange);
  void Finish(Exchange& exchange, CURLcode code);
  // If the answer is a redirect that may be followed, stores the new address in exchange.next and
  // returns true.
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
