#ifndef MOONRING_LUA_HUB_SETTINGS_H_
#define MOONRING_LUA_HUB_SETTINGS_H_

// The hub's address, its cache folder and the access token, from the environment variables that
// huggingface_hub reads.
//
//   HF_ENDPOINT               the hub's address; default kPublicEndpoint
//   HF_HUB_CACHE              the cache folder; default HF_HOME/hub. HF_HOME defaults to
//                             XDG_CACHE_HOME/huggingface, XDG_CACHE_HOME to ~/.cache.
//                             (HUGGINGFACE_HUB_CACHE is an older name.)
//   HF_TOKEN                  the token; default the contents of the file HF_TOKEN_PATH, else of
//                             HF_HOME/token
//   HF_HUB_DISABLE_IMPLICIT_TOKEN   use only a token that is passed explicitly
//   HF_HUB_OFFLINE            1, ON, YES or TRUE: no network requests; default TRANSFORMERS_OFFLINE
//   HF_HUB_ETAG_TIMEOUT       seconds to connect and to receive an answer (10)
//   HF_HUB_DOWNLOAD_TIMEOUT   seconds that a download may stall (10)
//
// Certificates and proxies: lua/http/http.h.

#include <functional>
#include <optional>
#include <string>

namespace moonring::lua {

// The address of the public Hugging Face hub.
inline constexpr char kPublicEndpoint[] = "https://huggingface.co";

struct HubSettings {
  std::string endpoint;    // without a trailing slash
  std::string cache;       // a folder that may not exist yet
  std::string token;       // "": none
  std::string token_from;  // source of the token, "HF_TOKEN" or a file's path, for messages
  bool offline = false;
  std::string offline_by;                           // the variable that forbids network requests,
                                                    // or empty
  double etag_timeout = 10, download_timeout = 10;  // seconds
};

// Returns the value of an environment variable; nullopt if it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// Reads a variable of this process's environment.
std::optional<std::string> ProcessEnvironment(const char* name);

HubSettings ReadHubSettings(const Environment& environment = ProcessEnvironment);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_SETTINGS_H_
