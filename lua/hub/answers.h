#ifndef MOONRING_LUA_HUB_ANSWERS_H_
#define MOONRING_LUA_HUB_ANSWERS_H_

// Converts error answers of a hub to messages that say what to do.

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

// The path of a repository in the hub's addresses: "ORG/NAME", "datasets/ORG/NAME".
std::string PathOf(const HubName& name);
// Percent-encodes a text for an address. `safe`: characters that stay unchanged, in addition to
// letters, digits and -_.~
std::string Quoted(absl::string_view text, absl::string_view safe);

// Returns the error for an answer whose status is not 2xx. `asked` describes the requested object:
// "revision 'main'", "config.json".
absl::Status Refusal(const HubSettings& settings, const HubName& name, const std::string& asked,
                     const HttpAnswer& answer);

// Returns the error for a request that got no answer.
absl::Status NoAnswer(const HubSettings& settings, const HubName& name,
                      const absl::Status& failure);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_ANSWERS_H_
