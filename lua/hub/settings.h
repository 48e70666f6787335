#ifndef MOONRING_LUA_HUB_SETTINGS_H_
#define MOONRING_LUA_HUB_SETTINGS_H_

// Where the hub is, where its downloads are kept, and by whose right they are made: by the
// environment variables that huggingface_hub reads.
//
//   HF_ENDPOINT               where the hub is; absent: kPublicEndpoint
//   HF_HUB_CACHE              the cache; else HF_HOME/hub; HF_HOME: else
//   XDG_CACHE_HOME/huggingface;
//                             XDG_CACHE_HOME: else ~/.cache. (HUGGINGFACE_HUB_CACHE: an old name.)
//   HF_TOKEN                  the token; else the file HF_TOKEN_PATH, else HF_HOME/token
//   HF_HUB_DISABLE_IMPLICIT_TOKEN   no token but one that is given by hand
//   HF_HUB_OFFLINE            1, ON, YES or TRUE: nothing is asked of the network; so with
//                             TRANSFORMERS_OFFLINE where it is absent
//   HF_HUB_ETAG_TIMEOUT       seconds to connect and to be answered (10)
//   HF_HUB_DOWNLOAD_TIMEOUT   seconds that a download may stand still (10)
//
// Certificates and proxies: lua/http/http.h.

#include <functional>
#include <optional>
#include <string>

namespace moonring::lua {

// The hub's public address.
inline constexpr char kPublicEndpoint[] = "https://huggingface.co";

struct HubSettings {
  std::string endpoint;    // without a slash at its end
  std::string cache;       // a folder, which need not be there
  std::string token;       // "": none
  std::string token_from;  // "HF_TOKEN", the file's path: for messages
  bool offline = false;
  std::string offline_by;                           // the variable that says so
  double etag_timeout = 10, download_timeout = 10;  // seconds
};

// What environment variables are: absent where there is none.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// Of this process.
std::optional<std::string> ProcessEnvironment(const char* name);

HubSettings ReadHubSettings(const Environment& environment = ProcessEnvironment);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_SETTINGS_H_
