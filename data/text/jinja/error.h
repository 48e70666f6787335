// Exceptions of the interpreter. They are caught only in data/text/jinja/template.cc, which
// converts them to a Status with the template's line. No Error leaves data/text/jinja.
#ifndef MOONRING_DATA_TEXT_JINJA_ERROR_H_
#define MOONRING_DATA_TEXT_JINJA_ERROR_H_

#include <exception>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace moonring::data::jinja {

class Error : public std::exception {
 public:
  Error(absl::StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  absl::StatusCode code() const { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  absl::StatusCode code_;
  std::string message_;
};

// Throws for an error in the template or in its input.
template <typename... Pieces>
[[noreturn]] void Fail(const Pieces&... pieces) {
  throw Error(absl::StatusCode::kInvalidArgument, absl::StrCat(pieces...));
}

// Throws for a feature of Jinja2 that this interpreter lacks.
template <typename... Pieces>
[[noreturn]] void Unsupported(const Pieces&... pieces) {
  throw Error(absl::StatusCode::kUnimplemented, absl::StrCat("not supported: ", pieces...));
}

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_ERROR_H_
