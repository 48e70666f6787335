#include "lua/hub/retries.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace moonring::lua {
namespace {

using std::chrono::milliseconds;

constexpr int kMost = 5;
constexpr int kMostWithoutConnection = 2;
constexpr milliseconds kLongest(300'000);  // longest wait that a server may request

// Returns the wait that the server requests: in the header Retry-After as seconds or as a date, or
// in the hub's header RateLimit, `"resolvers";r=0;t=55`, as t seconds.
std::optional<milliseconds> Asked(const HttpAnswer& answer) {
  int64_t seconds = 0;
  const std::string after = answer.header("retry-after"), limit = answer.header("ratelimit");
  if (absl::SimpleAtoi(after, &seconds)) return milliseconds(seconds * 1000);
  absl::Time until;
  if (absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", after, &until, nullptr))
    return milliseconds(absl::ToInt64Milliseconds(until - absl::Now()));
  const size_t t = limit.find(";t=");
  if (t == std::string::npos) return std::nullopt;
  const absl::string_view rest = absl::string_view(limit).substr(t + 3);
  const size_t end = std::min(rest.find_first_not_of("0123456789"), rest.size());
  if (!absl::SimpleAtoi(rest.substr(0, end), &seconds)) return std::nullopt;
  return milliseconds(seconds * 1000);
}

}  // namespace

std::optional<milliseconds> Retries::After(const absl::StatusOr<HttpAnswer>& answer) {
  if (!answer.ok()) {
    const absl::StatusCode code = answer.status().code();
    const bool broke =
        code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded;
    if (!broke && code != absl::StatusCode::kNotFound) return std::nullopt;
    if (failures_ >= (broke ? kMost : kMostWithoutConnection)) return std::nullopt;
    ++failures_;
    const int power = std::min(failures_ - 1, 3);
    return milliseconds((broke ? 1000 : 500) << power);
  }
  const bool passes = answer->code == 429 || answer->code == 500 || answer->code == 502 ||
                      answer->code == 503 || answer->code == 504;
  if (!passes || failures_ >= kMost) return std::nullopt;
  const milliseconds own(1000 << std::min(failures_, 3));
  const milliseconds asked = std::max(milliseconds(0), Asked(*answer).value_or(own));
  if (asked > kLongest) return std::nullopt;
  ++failures_;
  return asked;
}

}  // namespace moonring::lua
