#ifndef MOONRING_LUA_SERVE_RESULT_JSON_H_
#define MOONRING_LUA_SERVE_RESULT_JSON_H_

// Results as JSON, for clients that do not ask for protobuf: SDKs before 0.25, curl, custom
// programs. The input is what results.h writes.

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lua/serve/body_json.h"

namespace moonring::serve {

// {"loss_fn_output_type": "ArrayRecord", "loss_fn_outputs": [{"logprobs": {"data": [..], "dtype":
// "float32", "shape": [..]}}], "metrics": {..}}
absl::StatusOr<Json> LossResultJson(absl::string_view message);

// {"type": "sample", "sequences": [{"tokens", "logprobs", "stop_reason", "topk_logprobs"}],
// "prompt_logprobs": [null, ..], "topk_prompt_logprobs": [[[id, log-prob], ..], ..]}. Log-probs
// that are not there are null.
absl::StatusOr<Json> SampleResultJson(absl::string_view message);

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_RESULT_JSON_H_
