#include "base/status/torch_status.h"

#include <new>
#include <string>
#include <system_error>

#include <c10/util/Exception.h>
#include <oneapi/dnnl/dnnl_common.hpp>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace moonring::base {
namespace {

absl::StatusCode CodeOf(const c10::Error& error) {
  if (dynamic_cast<const c10::IndexError*>(&error) ||
      dynamic_cast<const c10::ValueError*>(&error) || dynamic_cast<const c10::TypeError*>(&error)) {
    return absl::StatusCode::kInvalidArgument;
  }
  if (dynamic_cast<const c10::NotImplementedError*>(&error))
    return absl::StatusCode::kUnimplemented;
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error))
    return absl::StatusCode::kResourceExhausted;
  if (dynamic_cast<const c10::DistError*>(&error)) return absl::StatusCode::kUnavailable;
  return absl::StatusCode::kInternal;
}

// LibTorch's CPU allocator reports exhaustion as a plain c10::Error, and so do CUDA, cuBLAS and
// cuDNN for GPU memory that they allocate outside LibTorch's allocator.
bool SaysOutOfMemory(absl::string_view message) {
  for (const absl::string_view words :
       {"can't allocate memory", "not enough memory", "out of memory", "_ALLOC_FAILED"}) {
    if (absl::StrContains(message, words)) return true;
  }
  return false;
}

// The name of the payload that marks a status of OutOfMemoryStatus.
constexpr char kMemoryMark[] = "moonring/out_of_memory";

// Whether the exception means that memory has run out. The message of oneDNN's exception only names
// the call ("could not create a primitive"); the cause is in the exception's status.
bool MemoryRanOut(const std::exception& exception) {
  const auto* of_onednn = dynamic_cast<const dnnl::error*>(&exception);
  return of_onednn != nullptr ? of_onednn->status == dnnl_out_of_memory
                              : dynamic_cast<const std::bad_alloc*>(&exception) != nullptr;
}

// The message up to LibTorch's "Exception raised from ... (most recent call first)".
absl::string_view WithoutStack(absl::string_view message) {
  for (absl::string_view mark : {"\nException raised from", "Exception raised from"}) {
    if (const size_t at = message.find(mark); at != absl::string_view::npos && at > 0)
      message = message.substr(0, at);
  }
  while (!message.empty() && (message.back() == '\n' || message.back() == ' '))
    message.remove_suffix(1);
  return message;
}

}  // namespace

StatusError::StatusError(absl::Status status)
    : std::runtime_error(std::string(status.message())), status_(std::move(status)) {}

absl::Status StatusOfException(const std::exception& exception) {
  if (const auto* carried = dynamic_cast<const StatusError*>(&exception)) return carried->status();
  if (const auto* error = dynamic_cast<const c10::Error*>(&exception)) {
    const std::string text = error->what_without_backtrace();
    const absl::string_view message = WithoutStack(text);
    const absl::StatusCode code = CodeOf(*error);
    if (code == absl::StatusCode::kResourceExhausted || SaysOutOfMemory(message))
      return OutOfMemoryStatus(message);
    return absl::Status(code, message);
  }
  if (MemoryRanOut(exception)) return OutOfMemoryStatus(kOutOfMemory);
  // std::thread throws this exception, in Moonring's code and in LibTorch's, if it cannot start a
  // thread.
  if (const auto* error = dynamic_cast<const std::system_error*>(&exception);
      error != nullptr && error->code() == std::errc::resource_unavailable_try_again) {
    return absl::ResourceExhaustedError(
        "no further thread can be started: a limit on processes and threads is reached (ulimit -u, "
        "or a container's)");
  }
  const std::string text = exception.what();
  return absl::InternalError(WithoutStack(text));
}

absl::Status OutOfMemoryStatus(absl::string_view message) {
  absl::Status status = absl::ResourceExhaustedError(message);
  status.SetPayload(kMemoryMark, absl::Cord());
  return status;
}

bool IsOutOfMemory(const absl::Status& status) {
  return status.GetPayload(kMemoryMark).has_value();
}

}  // namespace moonring::base
