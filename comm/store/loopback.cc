#include "comm/store/loopback.h"

#include "absl/strings/match.h"

namespace moonring::comm {

bool IsLoopback(absl::string_view host) {
  // 127.example.org is a name.
  const bool numbers = host.find_first_not_of("0123456789.") == absl::string_view::npos;
  return host == "localhost" || host == "::1" || host == "[::1]" ||
         (numbers && absl::StartsWith(host, "127."));
}

}  // namespace moonring::comm
