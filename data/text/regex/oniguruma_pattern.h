// Rewrites a regular expression from Oniguruma's syntax (used in tokenizer.json) to an equivalent
// one for PCRE2 with UTF, UCP, MULTILINE and newline = LF. regex.h lists the differences.
//
// Fails with UNIMPLEMENTED, naming the construct, if there is no equivalent, and with
// INVALID_ARGUMENT if the pattern is truncated. Other syntax errors are left to PCRE2.
#ifndef MOONRING_DATA_TEXT_REGEX_ONIGURUMA_PATTERN_H_
#define MOONRING_DATA_TEXT_REGEX_ONIGURUMA_PATTERN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

absl::StatusOr<std::string> RewriteOnigurumaPattern(absl::string_view pattern);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_REGEX_ONIGURUMA_PATTERN_H_
