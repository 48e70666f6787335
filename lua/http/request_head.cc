#include "lua/http/request_head.h"

#include <algorithm>
#include <string>
#include <utility>

#include <boost/beast/http/field.hpp>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace moonring::lua {
namespace {

absl::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

std::string Decoded(absl::string_view text, bool plus_is_space) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '%' && i + 2 < text.size() &&
                           absl::ascii_isxdigit(text[i + 1]) && absl::ascii_isxdigit(text[i + 2]);
    if (is_escape) {
      decoded += absl::HexStringToBytes(text.substr(i + 1, 2));
      i += 2;
    } else {
      decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

// Removes "http://host" of a target in absolute form, which a client with a proxy sends.
absl::string_view WithoutHost(absl::string_view target) {
  if (!absl::StartsWithIgnoreCase(target, "http://")) return target;
  const size_t path = target.find_first_of("/?", 7);
  return path == absl::string_view::npos ? "/" : target.substr(path);
}

absl::Status SplitTarget(absl::string_view target, ServerRequest& request) {
  target = WithoutHost(target);
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(target, absl::MaxSplits('?', 1));
  if (!absl::StartsWith(parts.first, "/"))
    return absl::InvalidArgumentError("expected a path that begins with '/'");
  request.path = Decoded(parts.first, /*plus_is_space=*/false);
  if (std::any_of(request.path.begin(), request.path.end(), absl::ascii_iscntrl))
    return absl::InvalidArgumentError("expected a path without control characters");
  for (const absl::string_view part : absl::StrSplit(parts.second, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    request.query.emplace_back(Decoded(pair.first, true), Decoded(pair.second, true));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ServerRequest> ReadRequestHead(const boost::beast::http::request_header<>& header) {
  namespace beast_http = boost::beast::http;
  ServerRequest request;
  request.method = std::string(View(header.method_string()));
  if (absl::Status status = SplitTarget(View(header.target()), request); !status.ok())
    return status;
  for (const auto& field : header) {
    auto [at, is_new] = request.headers.try_emplace(
        absl::AsciiStrToLower(View(field.name_string())), View(field.value()));
    if (!is_new) absl::StrAppend(&at->second, ", ", View(field.value()));
  }
  if (header.count(beast_http::field::host) > 1)
    return absl::InvalidArgumentError("expected one Host header");
  const auto coding = request.headers.find("transfer-encoding");
  if (coding != request.headers.end() && !absl::EqualsIgnoreCase(coding->second, "chunked"))
    return absl::InvalidArgumentError("expected the transfer coding chunked, or none");
  return request;
}

}  // namespace moonring::lua
