#ifndef MOONRING_LUA_SERVE_REQUEST_KEY_H_
#define MOONRING_LUA_SERVE_REQUEST_KEY_H_

// What the door reads of a request that becomes a promise: whose it is, and its place in the order.
// The rest of the body is read by the model's thread, so that a request with another fault still
// takes its place, and the ones after it run.
//
// Errors: INVALID_ARGUMENT for a body in which these fields cannot be read.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lua/serve/promises.h"

namespace moonring::serve {

// forward_backward and forward, in protobuf and JSON.
absl::StatusOr<Request> LossKey(absl::string_view route, absl::string_view body,
                                absl::string_view type);
// create_model, and load_weights where it creates a model: SESSION/model/N.
absl::StatusOr<Request> CreationKey(absl::string_view route, absl::string_view body);
// Other requests of a model: MODEL/SEQ_ID.
absl::StatusOr<Request> ModelKey(absl::string_view route, absl::string_view body);

// The ids of a session's models and sampling sessions.
std::string ModelId(absl::string_view session, int64_t number);
std::string SamplerId(absl::string_view session, int64_t number);
// The session of such an id; "" for any other text.
std::string SessionOf(absl::string_view id);

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_REQUEST_KEY_H_
