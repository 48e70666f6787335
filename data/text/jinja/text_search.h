// Searches of a text for a part, in time linear in both. The standard library's search takes up to
// the product of both lengths, of "aaa...b" in "aaa..." say, and a template chooses both texts.
#ifndef MOONRING_DATA_TEXT_JINJA_TEXT_SEARCH_H_
#define MOONRING_DATA_TEXT_JINJA_TEXT_SEARCH_H_

#include <cstddef>
#include <functional>

#include "absl/strings/string_view.h"
#include "data/text/jinja/budget.h"

namespace moonring::data::jinja {

// Calls `at` with the byte offset of each place, first to last (or last to first), until it returns
// false. Places do not overlap. `part` is not empty. Charged before it is done.
void ForEachPlace(Budget& budget, absl::string_view text, absl::string_view part, bool from_right,
                  const std::function<bool(size_t)>& at);

// The first (or last) place, or npos. An empty part is at the first (or last) byte.
size_t FindPlace(Budget& budget, absl::string_view text, absl::string_view part, bool last);

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_TEXT_SEARCH_H_
