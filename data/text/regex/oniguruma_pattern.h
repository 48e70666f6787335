// Rewrites a regular expression from Oniguruma's syntax (which tokenizer.json files are written in)
// to one that means the same to PCRE2 under UTF, UCP, MULTILINE and newline = LF. See regex.h for
// what differs.
//
// Fails with UNIMPLEMENTED and the construct's text on what has no counterpart here,
// INVALID_ARGUMENT on what ends too early. What is malformed in other ways is left for PCRE2 to
// refuse.
#ifndef MOONRING_DATA_TEXT_REGEX_ONIGURUMA_PATTERN_H_
#define MOONRING_DATA_TEXT_REGEX_ONIGURUMA_PATTERN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

absl::StatusOr<std::string> RewriteOnigurumaPattern(absl::string_view pattern);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_REGEX_ONIGURUMA_PATTERN_H_
