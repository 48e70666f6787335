#include "lua/hub/settings.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "base/files/input_file.h"

namespace moonring::lua {
namespace {

std::string Or(const Environment& environment, const char* name, const std::string& otherwise) {
  const std::optional<std::string> value = environment(name);
  return value.has_value() && !value->empty() ? *value : otherwise;
}

// Replaces a leading ~ by the home folder, as Python's os.path.expanduser does for the current
// user.
std::string WithHome(const std::string& path, const std::string& home) {
  const bool is_home = !path.empty() && path[0] == '~' && (path.size() == 1 || path[1] == '/');
  return is_home ? home + path.substr(1) : path;
}

bool IsTrue(const std::string& value) {
  const std::string upper = absl::AsciiStrToUpper(value);
  return upper == "1" || upper == "ON" || upper == "YES" || upper == "TRUE";
}

double Seconds(const Environment& environment, const char* name) {
  constexpr double kDefault = 10;
  double seconds = 0;
  const std::string text = Or(environment, name, "");
  return absl::SimpleAtod(text, &seconds) && seconds > 0 && seconds < 1e6 ? seconds : kDefault;
}

// Removes the line end that some editors add to the file with the token.
std::string CleanToken(const std::string& text) {
  return std::string(
      absl::StripAsciiWhitespace(absl::StrReplaceAll(text, {{"\r", ""}, {"\n", ""}})));
}

void ReadToken(const Environment& environment, const std::string& home, const std::string& user,
               HubSettings& settings) {
  if (IsTrue(Or(environment, "HF_HUB_DISABLE_IMPLICIT_TOKEN", ""))) return;
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    settings.token = CleanToken(Or(environment, name, ""));
    settings.token_from = name;
    if (!settings.token.empty()) return;
  }
  const std::string path = WithHome(Or(environment, "HF_TOKEN_PATH", home + "/token"), user);
  if (!base::CheckWholeFile(path).ok()) return;
  std::ifstream file(path, std::ios::binary);
  settings.token = CleanToken(std::string(std::istreambuf_iterator<char>(file), {}));
  settings.token_from = path;
}

}  // namespace

std::optional<std::string> ProcessEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

HubSettings ReadHubSettings(const Environment& environment) {
  HubSettings settings;
  settings.endpoint = Or(environment, "HF_ENDPOINT", kPublicEndpoint);
  while (!settings.endpoint.empty() && settings.endpoint.back() == '/')
    settings.endpoint.pop_back();
  const std::string user = Or(environment, "HOME", "");
  const std::string caches = WithHome(Or(environment, "XDG_CACHE_HOME", user + "/.cache"), user);
  const std::string home = WithHome(Or(environment, "HF_HOME", caches + "/huggingface"), user);
  settings.cache = WithHome(
      Or(environment, "HF_HUB_CACHE", Or(environment, "HUGGINGFACE_HUB_CACHE", home + "/hub")),
      user);
  ReadToken(environment, home, user, settings);
  settings.offline_by =
      Or(environment, "HF_HUB_OFFLINE", "").empty() ? "TRANSFORMERS_OFFLINE" : "HF_HUB_OFFLINE";
  settings.offline = IsTrue(Or(environment, settings.offline_by.c_str(), ""));
  settings.etag_timeout = Seconds(environment, "HF_HUB_ETAG_TIMEOUT");
  settings.download_timeout = Seconds(environment, "HF_HUB_DOWNLOAD_TIMEOUT");
  return settings;
}

}  // namespace moonring::lua
