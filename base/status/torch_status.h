#ifndef MOONRING_BASE_STATUS_TORCH_STATUS_H_
#define MOONRING_BASE_STATUS_TORCH_STATUS_H_

// Conversion between LibTorch's exceptions and absl::Status, in both directions.
//
//   exception                                     status
//   StatusError                                   the status it carries
//   c10::IndexError, ValueError, TypeError        INVALID_ARGUMENT
//   c10::NotImplementedError                      UNIMPLEMENTED
//   c10::OutOfMemoryError, std::bad_alloc,
//   dnnl::error with dnnl_out_of_memory           RESOURCE_EXHAUSTED
//   c10::DistBackendError, DistNetworkError,
//   DistStoreError                                UNAVAILABLE
//   any other c10::Error, std::exception          INTERNAL
//
// A status created here has only the message, without LibTorch's file, line and C++ stack.

#include <exception>
#include <stdexcept>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::base {

// Carries a bad status through code that can only throw (an autograd Function, a LibTorch
// callback).
class StatusError : public std::runtime_error {
 public:
  explicit StatusError(absl::Status status);
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

// The whole message of a status for an exception which only states that memory has run out, not for
// what.
inline constexpr absl::string_view kOutOfMemory = "out of memory";

absl::Status StatusOfException(const std::exception& exception);

// A RESOURCE_EXHAUSTED status that means that memory has run out, and not a disk or another limit.
absl::Status OutOfMemoryStatus(absl::string_view message);

// Whether the status was made by OutOfMemoryStatus. The mark survives WithContext.
bool IsOutOfMemory(const absl::Status& status);

// Runs `body` (returning void or absl::Status); converts an exception to a status.
template <typename Body>
absl::Status TryTorch(Body&& body) {
  try {
    if constexpr (std::is_same_v<decltype(body()), absl::Status>) {
      return body();
    } else {
      body();
      return absl::OkStatus();
    }
  } catch (const std::exception& exception) {
    return StatusOfException(exception);
  }
}

inline void ThrowIfError(const absl::Status& status) {
  if (!status.ok()) throw StatusError(status);
}

template <typename T>
T ValueOrThrow(absl::StatusOr<T> result) {
  ThrowIfError(result.status());
  return *std::move(result);
}

}  // namespace moonring::base

#endif  // MOONRING_BASE_STATUS_TORCH_STATUS_H_
