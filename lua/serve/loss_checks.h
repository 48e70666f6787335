#ifndef MOONRING_LUA_SERVE_LOSS_CHECKS_H_
#define MOONRING_LUA_SERVE_LOSS_CHECKS_H_

// Checks that both forms of a loss request (loss_request.h) share. Errors: INVALID_ARGUMENT, with
// the field.

#include <cstddef>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "lua/serve/loss_request.h"

namespace moonring::serve {

absl::Status CheckDatumCount(size_t count);  // at most kMostDatums
// The datum must have a token, and no negative one.
absl::Status CheckTokens(const LossDatum& datum);
// Adds a finite number or a text to a request's loss_fn_config, of at most kMostConfigEntries.
absl::Status AddConfig(std::string name, std::variant<double, std::string> value,
                       LossRequest& request);

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_LOSS_CHECKS_H_
