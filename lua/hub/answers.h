#ifndef MOONRING_LUA_HUB_ANSWERS_H_
#define MOONRING_LUA_HUB_ANSWERS_H_

// What a hub's refusals mean, in words that say what to do.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lua/http/http.h"
#include "lua/hub/settings.h"

namespace moonring::lua {

struct HubName {
  std::string kind;  // "model" or "dataset"
  std::string name;  // ORG/NAME
};

// The repository as the hub's addresses have it: "ORG/NAME", "datasets/ORG/NAME".
std::string PathOf(const HubName& name);
// As it stands in an address. `safe`: signs that stay as they are, besides letters, digits, -_.~
std::string Quoted(absl::string_view text, absl::string_view safe);

// Of an answer that is no 2xx. `asked`: what of the repository was asked for: "revision 'main'",
// "config.json".
absl::Status Refusal(const HubSettings& settings, const HubName& name, const std::string& asked,
                     const HttpAnswer& answer);

// Of a request that was not answered.
absl::Status NoAnswer(const HubSettings& settings, const HubName& name,
                      const absl::Status& failure);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_ANSWERS_H_
