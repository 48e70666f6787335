#include "lua/http/access_check.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace moonring::lua {

bool IsSameSecret(absl::string_view secret, absl::string_view given) {
  // The secret is repeated, so that the duration depends on the given text's length alone.
  volatile unsigned char differs = secret.size() == given.size() ? 0 : 1;
  for (size_t i = 0; i < given.size() && !secret.empty(); ++i)
    differs = differs | static_cast<unsigned char>(secret[i % secret.size()] ^ given[i]);
  return differs == 0;
}

bool IsLoopbackHost(absl::string_view host) {
  const size_t port = host.rfind(':');
  if (port != absl::string_view::npos && host.find(']', port) == absl::string_view::npos)
    host = host.substr(0, port);
  return host == "127.0.0.1" || host == "[::1]" || absl::AsciiStrToLower(host) == "localhost";
}

bool IsOwnOrigin(absl::string_view origin, absl::string_view host) {
  return origin.empty() || origin == absl::StrCat("http://", host);
}

}  // namespace moonring::lua
