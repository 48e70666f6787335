#ifndef MOONRING_LUA_HUB_RETRIES_H_
#define MOONRING_LUA_HUB_RETRIES_H_

// Decides when to retry after a temporary failure: a broken or stalled connection, 429 (after the
// time in Retry-After), 500, 502, 503, 504. Five retries without progress, after 1, 2, 4, 8 and 8
// s; two if no connection was possible, after 0.5 and 1 s.

#include <chrono>
#include <optional>

#include "absl/status/statusor.h"
#include "lua/http/http.h"

namespace moonring::lua {

class Retries {
 public:
  // The wait before the next try; nullopt for a success, a permanent failure, or too many retries.
  std::optional<std::chrono::milliseconds> After(const absl::StatusOr<HttpAnswer>& answer);
  // Bytes were received: resets the number of failures.
  void Progress() { failures_ = 0; }
  int failures() const { return failures_; }

 private:
  int failures_ = 0;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_RETRIES_H_
