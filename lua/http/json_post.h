#ifndef MOONRING_LUA_HTTP_JSON_POST_H_
#define MOONRING_LUA_HTTP_JSON_POST_H_

// One POST of JSON by HTTP or HTTPS (http.h), on a connection of its own.
//
// An answer of any code is an answer, a redirect too. Fails as Http does, but with UNAVAILABLE
// where nobody is to be reached; with DEADLINE_EXCEEDED; with RESOURCE_EXHAUSTED for an answer of
// more than 64 MiB. (A name that the system goes on looking up after the deadline may hold the call
// until it is through.)

#include <chrono>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lua/http/http.h"

namespace moonring::lua {

// INVALID_ARGUMENT for what is not "http[s]://host[:port][/path][?query]".
absl::Status CheckHttpAddress(const std::string& url);

// `stop` is asked some ten times a second. `url` is one that CheckHttpAddress takes.
absl::StatusOr<HttpAnswer> PostJson(const std::string& url, std::string json,
                                    std::chrono::steady_clock::time_point deadline,
                                    absl::FunctionRef<bool()> stop);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HTTP_JSON_POST_H_
