#ifndef MOONRING_BASE_STATUS_STATUS_MACROS_H_
#define MOONRING_BASE_STATUS_STATUS_MACROS_H_

// Macros that return a bad absl::Status early, with context added in front of its message:
//
//   RETURN_IF_ERROR(ReadHeader(file), "model.safetensors");           // "model.safetensors: header
//       is 3 bytes, ..."
//   ASSIGN_OR_RETURN(auto config, ParseConfig(text), path, ": config");
//
// The arguments after the expression are joined as by absl::StrCat. They are evaluated only if the
// status is bad.

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace moonring::base {

// Returns a status with the same code and payloads, and with "context: " before the message;
// without a context, returns the status unchanged.
inline absl::Status WithContext(absl::Status status) { return status; }

template <typename... Pieces>
absl::Status WithContext(const absl::Status& status, const Pieces&... pieces) {
  absl::Status with(status.code(), absl::StrCat(pieces..., ": ", status.message()));
  status.ForEachPayload(
      [&with](absl::string_view name, const absl::Cord& value) { with.SetPayload(name, value); });
  return with;
}

}  // namespace moonring::base

#define MOONRING_CONCAT_INNER(a, b) a##b
#define MOONRING_CONCAT(a, b) MOONRING_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression, ...)                                                           \
  do {                                                                                             \
    if (absl::Status moonring_status = (expression); !moonring_status.ok()) {                      \
      return ::moonring::base::WithContext(std::move(moonring_status) __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                                              \
  } while (false)

#define ASSIGN_OR_RETURN(target, expression, ...)                                \
  MOONRING_ASSIGN_OR_RETURN(MOONRING_CONCAT(moonring_result_, __LINE__), target, \
                            expression __VA_OPT__(, ) __VA_ARGS__)

#define MOONRING_ASSIGN_OR_RETURN(result, target, expression, ...)                               \
  auto result = (expression);                                                                    \
  if (!result.ok())                                                                              \
    return ::moonring::base::WithContext(std::move(result).status() __VA_OPT__(, ) __VA_ARGS__); \
  target = *std::move(result)

#endif  // MOONRING_BASE_STATUS_STATUS_MACROS_H_
