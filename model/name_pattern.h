#ifndef MOONRING_MODEL_NAME_PATTERN_H_
#define MOONRING_MODEL_NAME_PATTERN_H_

// Names of modules by regular expressions, as adapter_config.json has them. They are Python's `re`,
// matched here by PCRE2: the two agree on what names of modules need. A match that backtracks for
// more than kMatchLimit steps fails.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace moonring::model {

inline constexpr uint32_t kMatchLimit = 1'000'000;

// Whether all of `name` is `pattern` (re.fullmatch), or, with `group`, whether it begins with it
// (re.match), and what its first group took. INVALID_ARGUMENT: no pattern, or kMatchLimit exceeded.
absl::StatusOr<bool> NameMatches(const std::string& pattern, const std::string& name,
                                 std::string* group = nullptr);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_NAME_PATTERN_H_
