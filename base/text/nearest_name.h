#ifndef MOONRING_BASE_TEXT_NEAREST_NAME_H_
#define MOONRING_BASE_TEXT_NEAREST_NAME_H_

// The known name that a misspelt one most likely stands for, by edit distance (Damerau's, adjacent
// letters swapped count as one edit). For messages alone: nothing is ever corrected silently.

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace moonring::base {

// "" where none is near: more than a third of the letters would have to change.
std::string NearestName(absl::string_view name, absl::Span<const std::string> known);

// " (did you mean 'x'?)", or "".
std::string DidYouMean(absl::string_view name, absl::Span<const std::string> known);

}  // namespace moonring::base

#endif  // MOONRING_BASE_TEXT_NEAREST_NAME_H_
