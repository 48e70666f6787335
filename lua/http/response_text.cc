#include "lua/http/response_text.h"

#include <boost/beast/http/status.hpp>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace moonring::lua {
namespace {

void AddField(std::string& text, absl::string_view name, absl::string_view value) {
  absl::StrAppend(&text, name, ": ");
  for (const char c : value) text += absl::ascii_iscntrl(c) ? ' ' : c;
  text += "\r\n";
}

}  // namespace

bool HasBody(int status) { return status >= 200 && status != 204 && status != 304; }

std::string HeadText(const ResponseHead& head, const ServerHeaders& headers,
                     const ServerHeaders& more) {
  const auto reason =
      boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(head.status));
  std::string text = absl::StrCat("HTTP/1.1 ", head.status, " ",
                                  absl::string_view(reason.data(), reason.size()), "\r\n");
  AddField(text, "Connection", head.keeps ? "keep-alive" : "close");
  if (!head.type.empty()) AddField(text, "Content-Type", head.type);
  if (head.length.has_value()) AddField(text, "Content-Length", absl::StrCat(*head.length));
  if (head.is_chunked) AddField(text, "Transfer-Encoding", "chunked");
  for (const auto& [name, value] : headers) AddField(text, name, value);
  for (const auto& [name, value] : more) AddField(text, name, value);
  return text + "\r\n";
}

std::string ChunkText(absl::string_view part) {
  return absl::StrCat(absl::Hex(part.size()), "\r\n", part, "\r\n");
}

ServerResponse JsonRefusal(int status, absl::string_view why) {
  const nlohmann::json body = {{"detail", std::string(why)}};
  return {.status = status,
          .type = "application/json",
          .body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

}  // namespace moonring::lua
