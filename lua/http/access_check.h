#ifndef MOONRING_LUA_HTTP_ACCESS_CHECK_H_
#define MOONRING_LUA_HTTP_ACCESS_CHECK_H_

// Checks of a request to a server on this machine. A page of another site that is open in the
// user's browser can send requests to this machine: its name may have been redirected to a loopback
// address (DNS rebinding, which the Host header shows), or it may post a form (which the Origin
// header shows).

#include "absl/strings/string_view.h"

namespace moonring::lua {

// Whether `given` is the secret, in constant time: the duration does not reveal how much of it is
// right.
bool IsSameSecret(absl::string_view secret, absl::string_view given);

// Whether a Host header, with or without a port, or an address is localhost or a loopback address.
bool IsLoopbackHost(absl::string_view host);

// Whether an Origin header is absent ("") or names the server itself by the same Host header.
bool IsOwnOrigin(absl::string_view origin, absl::string_view host);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HTTP_ACCESS_CHECK_H_
