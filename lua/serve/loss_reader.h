#ifndef MOONRING_LUA_SERVE_LOSS_READER_H_
#define MOONRING_LUA_SERVE_LOSS_READER_H_

// Reads a loss request (loss_request.h) from its two forms: protobuf, and JSON from SDKs before
// 0.25.
//
// A request that is not well-formed, or over a limit of loss_request.h, is INVALID_ARGUMENT; the
// message names the datum, the field, what came and what was expected:
//
//   data[3].loss_fn_inputs.weights: 8 bytes are 2 numbers of float32, but its shape [3] has 3
//
// UNIMPLEMENTED for content that is not offered (images, audio).

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lua/serve/loss_request.h"

namespace moonring::serve {

// Reads a body; `type` is its Content-Type. A type with "json" in it is JSON, any other protobuf.
absl::StatusOr<LossRequest> ReadLossRequest(absl::string_view body, absl::string_view type);

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_LOSS_READER_H_
