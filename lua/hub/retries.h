#ifndef MOONRING_LUA_HUB_RETRIES_H_
#define MOONRING_LUA_HUB_RETRIES_H_

// Decides when to retry a request after a temporary failure: a broken or stalled connection, or
// status 429 (after the time in Retry-After), 500, 502, 503 or 504. If no bytes arrive in between,
// there are five retries, after 1, 2, 4, 8 and 8 s; two, after 0.5 and 1 s, if no connection was
// possible.

#include <chrono>
#include <optional>

#include "absl/status/statusor.h"
#include "lua/http/http.h"

namespace moonring::lua {

class Retries {
 public:
  // Returns the wait before the next try; nullopt for a success, a permanent failure, or too many
  // retries.
  std::optional<std::chrono::milliseconds> After(const absl::StatusOr<HttpAnswer>& answer);
  // Call this when bytes were received: resets the number of failures.
  void Progress() { failures_ = 0; }
  int failures() const { return failures_; }

 private:
  int failures_ = 0;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_RETRIES_H_
