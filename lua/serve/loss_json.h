#ifndef MOONRING_LUA_SERVE_LOSS_JSON_H_
#define MOONRING_LUA_SERVE_LOSS_JSON_H_

// The JSON form of a loss request (loss_request.h).

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lua/serve/loss_request.h"

namespace moonring::serve {

// {"model_id", "seq_id", "forward_backward_input" or "forward_input": {"data", "loss_fn",
// "loss_fn_config"}}
absl::StatusOr<LossRequest> ReadLossJson(absl::string_view body);

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_LOSS_JSON_H_
