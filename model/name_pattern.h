#ifndef MOONRING_MODEL_NAME_PATTERN_H_
#define MOONRING_MODEL_NAME_PATTERN_H_

// Matches module names against the regular expressions of adapter_config.json. The expressions are
// Python's `re`, matched here by PCRE2: both agree on the syntax that module names need. A match
// that backtracks for more than kMatchLimit steps fails.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace moonring::model {

inline constexpr uint32_t kMatchLimit = 1'000'000;

// Without `group`, returns whether `pattern` matches all of `name` (re.fullmatch). With `group`,
// returns whether `pattern` matches at the beginning of `name` (re.match), and sets `*group` to the
// pattern's first group. INVALID_ARGUMENT: an invalid pattern, or kMatchLimit exceeded.
absl::StatusOr<bool> NameMatches(const std::string& pattern, const std::string& name,
                                 std::string* group = nullptr);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_NAME_PATTERN_H_
