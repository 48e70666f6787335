#ifndef MOONRING_LUA_HTTP_JSON_POST_H_
#define MOONRING_LUA_HTTP_JSON_POST_H_

// A single POST of JSON by HTTP or HTTPS (http.h), on a new connection.
//
// An answer with any status code is a success here, also a redirect. Errors are those of Http,
// except: UNAVAILABLE if the server cannot be reached; DEADLINE_EXCEEDED; RESOURCE_EXHAUSTED for an
// answer of more than 64 MiB. (The system's name lookup may delay the call beyond the deadline.)

#include <chrono>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lua/http/http.h"

namespace moonring::lua {

// Checks that an address has the form "http[s]://host[:port][/path][?query]". Errors:
// INVALID_ARGUMENT.
absl::Status CheckHttpAddress(const std::string& url);

// Sends `json` to `url`, which must have passed CheckHttpAddress, and returns the answer. `stop` is
// called about ten times a second; if it returns true, the call ends with CANCELLED.
absl::StatusOr<HttpAnswer> PostJson(const std::string& url, std::string json,
                                    std::chrono::steady_clock::time_point deadline,
                                    absl::FunctionRef<bool()> stop);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HTTP_JSON_POST_H_
