#include "lua/hub/answers.h"

#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace moonring::lua {
namespace {

std::string Whose(const HubSettings& settings) {
  return settings.token_from.empty() ? "the token"
                                     : absl::StrCat("the token of ", settings.token_from);
}

constexpr char kGiveToken[] =
    "give a token that may (HF_TOKEN, hf_hub_token, or what `hf auth login` keeps)";

absl::Status Gated(const HubSettings& settings, const std::string& what, const HubName& name) {
  const std::string terms =
      absl::StrCat(what, " is gated: accept its terms at ", settings.endpoint, "/", PathOf(name));
  if (settings.token.empty()) {
    return absl::PermissionDeniedError(absl::StrCat(
        terms, ", then give a token (HF_TOKEN, hf_hub_token, or what `hf auth login` keeps)"));
  }
  return absl::PermissionDeniedError(
      absl::StrCat(terms, " as the user of ", Whose(settings), "; they may have to be granted"));
}

absl::Status Missing(const HubSettings& settings, const std::string& what) {
  const std::string place = absl::StrCat("no ", what, " at ", settings.endpoint);
  if (!settings.token.empty()) {
    return absl::NotFoundError(absl::StrCat(place, " that ", Whose(settings), " may see"));
  }
  return absl::NotFoundError(absl::StrCat(place, "; where it is private, ", kGiveToken));
}

}  // namespace

std::string PathOf(const HubName& name) {
  return absl::StrCat(name.kind == "model" ? "" : absl::StrCat(name.kind, "s/"), name.name);
}

std::string Quoted(absl::string_view text, absl::string_view safe) {
  std::string quoted;
  for (const char c : text) {
    const bool stays = absl::ascii_isalnum(c) ||
                       absl::string_view("-_.~").find(c) != absl::string_view::npos ||
                       safe.find(c) != absl::string_view::npos;
    if (stays) {
      quoted += c;
    } else {
      absl::StrAppendFormat(&quoted, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return quoted;
}

absl::Status Refusal(const HubSettings& settings, const HubName& name, const std::string& asked,
                     const HttpAnswer& answer) {
  const std::string what =
      absl::StrCat(name.kind == "dataset" ? "data set" : name.kind, " '", name.name, "'");
  const std::string code = answer.header("x-error-code");
  const std::string words = answer.header("x-error-message");
  const std::string said = absl::StrCat(settings.endpoint, " answers ", answer.code,
                                        words.empty() ? "" : absl::StrCat(" (", words, ")"));
  if (code == "GatedRepo") return Gated(settings, what, name);
  if (code == "RevisionNotFound")
    return absl::NotFoundError(absl::StrCat(what, " has no ", asked, " (model_revision)"));
  if (code == "EntryNotFound") return absl::NotFoundError(absl::StrCat(what, " has no ", asked));
  if (answer.code == 401 && words == "Invalid credentials in Authorization header") {
    return absl::PermissionDeniedError(absl::StrCat(settings.endpoint, " does not know ",
                                                    Whose(settings),
                                                    ": take it away or give a "
                                                    "valid one (HF_TOKEN, hf_hub_token)"));
  }
  // If no token is sent, the hub answers 401 also for repositories that do not exist.
  if (code == "RepoNotFound" || answer.code == 401 || answer.code == 404)
    return Missing(settings, what);
  if (answer.code == 403)
    return absl::PermissionDeniedError(absl::StrCat(what, ": ", said, ": ", kGiveToken));
  if (answer.code == 429) {
    return absl::UnavailableError(absl::StrCat(what, ": ", said, ": too many requests",
                                               settings.token.empty()
                                                   ? "; with a token (HF_TOKEN) more are allowed"
                                                   : "; try again later"));
  }
  if (answer.code >= 500)
    return absl::UnavailableError(absl::StrCat(what, ": ", said, ": try again later"));
  return absl::UnavailableError(
      absl::StrCat(what, ", ", asked, ": ", said, "; is that a hub (HF_ENDPOINT)?"));
}

absl::Status NoAnswer(const HubSettings& settings, const HubName& name,
                      const absl::Status& failure) {
  return absl::Status(failure.code() == absl::StatusCode::kNotFound ? absl::StatusCode::kUnavailable
                                                                    : failure.code(),
                      absl::StrCat("'", name.name, "' cannot be had from ", settings.endpoint, " (",
                                   failure.message(), ")"));
}

}  // namespace moonring::lua
