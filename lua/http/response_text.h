#ifndef MOONRING_LUA_HTTP_RESPONSE_TEXT_H_
#define MOONRING_LUA_HTTP_RESPONSE_TEXT_H_

// The text of an HTTP/1.1 answer.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "lua/http/server_options.h"

namespace moonring::lua {

struct ResponseHead {
  int status = 200;
  absl::string_view type;          // "": no Content-Type
  std::optional<uint64_t> length;  // nullopt: no Content-Length
  bool is_chunked = false;
  bool keeps = false;  // whether the connection is kept
};

// Whether an answer with this status has a body by HTTP's rules.
bool HasBody(int status);

// Returns the status line, the headers, and the empty line after them. Control characters in the
// values become spaces, so that no value can begin another header.
std::string HeadText(const ResponseHead& head, const ServerHeaders& headers,
                     const ServerHeaders& more);

// Returns a part of an answer in the transfer coding `chunked`. It must not be empty, because an
// empty chunk (kLastChunk) ends the answer.
std::string ChunkText(absl::string_view part);
constexpr char kLastChunk[] = "0\r\n\r\n";

// Returns a refusal with the JSON body {"detail": why}.
ServerResponse JsonRefusal(int status, absl::string_view why);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HTTP_RESPONSE_TEXT_H_
