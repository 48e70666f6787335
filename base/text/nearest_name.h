#ifndef MOONRING_BASE_TEXT_NEAREST_NAME_H_
#define MOONRING_BASE_TEXT_NEAREST_NAME_H_

// Finds the known name that a misspelt one most likely means, by edit distance (Damerau's: swapping
// two adjacent letters counts as one edit). For messages only: nothing is corrected silently.

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace moonring::base {

// Returns "" if no name is close: if more than a third of the letters would have to change.
std::string NearestName(absl::string_view name, absl::Span<const std::string> known);

// " (did you mean 'x'?)" with the nearest name, or if there is none with up to three names that
// contain the words of `name` ('lion_32bit' or 'paged_lion_32bit' for lion); or "".
std::string DidYouMean(absl::string_view name, absl::Span<const std::string> known);

}  // namespace moonring::base

#endif  // MOONRING_BASE_TEXT_NEAREST_NAME_H_
