#ifndef MOONRING_LUA_HUB_RETRIES_H_
#define MOONRING_LUA_HUB_RETRIES_H_

// When to ask again after a failure that may pass: a connection that breaks or stands still, 429
// (as often as Retry-After says), 500, 502, 503, 504. Five times without progress, 1, 2, 4, 8 and
// 8 s apart; where no connection was to be had at all, twice, half a second and a second apart.

#include <chrono>
#include <optional>

#include "absl/status/statusor.h"
#include "lua/http/http.h"

namespace moonring::lua {

class Retries {
 public:
  // How long to wait before the next try; nothing: it is to be given up, or is no failure.
  std::optional<std::chrono::milliseconds> After(const absl::StatusOr<HttpAnswer>& answer);
  // Something came: the count begins again.
  void Progress() { failures_ = 0; }
  int failures() const { return failures_; }

 private:
  int failures_ = 0;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_RETRIES_H_
