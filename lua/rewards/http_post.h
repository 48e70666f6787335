#ifndef MOONRING_LUA_REWARDS_HTTP_POST_H_
#define MOONRING_LUA_REWARDS_HTTP_POST_H_

// One POST of JSON by plain HTTP/1.1, on a connection of its own (Boost.Beast).
//
// Fails with INVALID_ARGUMENT for what is no http:// address; UNAVAILABLE where nobody answers, or
// what answers is no HTTP; DEADLINE_EXCEEDED; CANCELLED; RESOURCE_EXHAUSTED for an answer beyond
// 64 MiB. An answer of any status code is an answer. (A name that the system goes on looking up
// after the deadline holds the call until it is through.)

#include <chrono>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace moonring::lua {

struct HttpAddress {
  std::string host, port = "80", target = "/";
};

// "http://host[:port][/path][?query]".
absl::StatusOr<HttpAddress> ParseHttpAddress(const std::string& url);

struct HttpAnswer {
  int code = 0;  // 200: all is well
  std::string reason, body;
};

// `stop` is asked some ten times a second.
absl::StatusOr<HttpAnswer> PostJson(const HttpAddress& address, const std::string& json,
                                    std::chrono::steady_clock::time_point deadline,
                                    absl::FunctionRef<bool()> stop);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_REWARDS_HTTP_POST_H_
