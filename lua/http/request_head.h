#ifndef MOONRING_LUA_HTTP_REQUEST_HEAD_H_
#define MOONRING_LUA_HTTP_REQUEST_HEAD_H_

// The header of a request, as Beast has parsed it, in the form that HttpServer hands over.

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>

#include "absl/status/statusor.h"
#include "lua/http/server_options.h"

namespace moonring::lua {

// Returns the request without id and body. Percent escapes are decoded, and in the query also '+';
// a malformed escape stays as it is. The bytes need not be UTF-8. INVALID_ARGUMENT for a target
// that is neither a path nor an http:// URL, for control characters in the path, for two Host
// headers, and for a transfer coding other than chunked.
absl::StatusOr<ServerRequest> ReadRequestHead(const boost::beast::http::request_header<>& header);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HTTP_REQUEST_HEAD_H_
