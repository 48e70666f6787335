#include "lua/http/access_check.h"

#include <arpa/inet.h>

#include <cstddef>
#include <string>

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
  if (host == "::1") return true;
  const size_t port = host.rfind(':');
  if (port != absl::string_view::npos && host.find(']', port) == absl::string_view::npos)
    host = host.substr(0, port);
  in_addr address{};  // all of 127.0.0.0/8 is this machine
  if (inet_pton(AF_INET, std::string(host).c_str(), &address) == 1)
    return (ntohl(address.s_addr) >> 24) == 127;
  return host == "[::1]" || absl::AsciiStrToLower(host) == "localhost";
}

bool IsOwnOrigin(absl::string_view origin, absl::string_view host) {
  return origin.empty() || origin == absl::StrCat("http://", host);
}

}  // namespace moonring::lua
