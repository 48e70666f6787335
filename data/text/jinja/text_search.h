// Substring search in linear time. The standard library's search can take the product of both
// lengths, for example for "aaa...b" in "aaa...", and a template chooses both texts.
#ifndef MOONRING_DATA_TEXT_JINJA_TEXT_SEARCH_H_
#define MOONRING_DATA_TEXT_JINJA_TEXT_SEARCH_H_

#include <cstddef>
#include <functional>

#include "absl/strings/string_view.h"
#include "data/text/jinja/budget.h"

namespace moonring::data::jinja {

// Calls `at` with the byte offset of each non-overlapping occurrence, from first to last (or from
// last to first), until it returns false. `part` must not be empty. The cost is charged in advance.
void ForEachPlace(Budget& budget, absl::string_view text, absl::string_view part, bool from_right,
                  const std::function<bool(size_t)>& at);

// Offset of the first (or last) occurrence, or npos. An empty part is found at the start (or end).
size_t FindPlace(Budget& budget, absl::string_view text, absl::string_view part, bool last);

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_TEXT_SEARCH_H_
