#include "lua/http/json_post.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status/status_macros.h"

namespace moonring::lua {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kLongest = int64_t{64} << 20;  // most bytes of an answer's body

bool IsPort(absl::string_view text) {
  int port = 0;
  return absl::SimpleAtoi(text, &port) && port > 0 && port < 65536 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

absl::Status CheckHttpAddress(const std::string& url) {
  const auto refuse = [&](const char* why) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", url, "': ", why, "; expected http://HOST:PORT/PATH, or https"));
  };
  absl::string_view rest = url;
  if (!absl::ConsumePrefix(&rest, "http://") && !absl::ConsumePrefix(&rest, "https://"))
    return refuse("no address");
  for (const char c : url) {
    if (c <= ' ' || c == '#' || c == 0x7f) return refuse("it has a space, a '#' or a control sign");
  }
  absl::string_view place = rest.substr(0, rest.find_first_of("/?"));
  if (absl::StrContains(place, "@")) return refuse("a name and password are not sent");
  const size_t bracket = place.find(']');
  const size_t colon = place.find(':', bracket == absl::string_view::npos ? 0 : bracket);
  if (colon != absl::string_view::npos && !IsPort(place.substr(colon + 1)))
    return refuse("no such port");
  place = place.substr(0, colon);
  return place.empty() || place == "[]" ? refuse("no host") : absl::OkStatus();
}

absl::StatusOr<HttpAnswer> PostJson(const std::string& url, std::string json,
                                    Clock::time_point deadline, absl::FunctionRef<bool()> stop) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Http> http, Http::Open());
  // `deadline` limits the whole answer, so a separate limit on idle time is not needed.
  const double seconds =
      std::max(0.001, std::chrono::duration<double>(deadline - Clock::now()).count());
  const auto late = [&] { return Clock::now() >= deadline; };
  absl::StatusOr<HttpAnswer> answer = http->Ask({.url = url,
                                                 .json = std::move(json),
                                                 .connect_seconds = seconds,
                                                 .idle_seconds = seconds + 1,
                                                 .most_bytes = kLongest},
                                                [&] { return stop() || late(); });
  if (answer.ok()) return answer;
  const absl::Status& failure = answer.status();
  if (stop()) return absl::CancelledError("the run was cancelled");
  if (absl::IsCancelled(failure) || absl::IsDeadlineExceeded(failure))
    return absl::DeadlineExceededError("no answer in time");
  if (absl::IsNotFound(failure)) return absl::UnavailableError(failure.message());
  return failure;
}

}  // namespace moonring::lua
