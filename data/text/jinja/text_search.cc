#include "data/text/jinja/text_search.h"

#include <cstdint>

#include <boost/algorithm/searching/knuth_morris_pratt.hpp>

namespace moonring::data::jinja {

void ForEachPlace(Budget& budget, absl::string_view text, absl::string_view part, bool from_right,
                  const std::function<bool(size_t)>& at) {
  budget.Scan(static_cast<int64_t>(text.size()));
  if (part.size() > text.size()) return;
  budget.Make(static_cast<int64_t>(part.size()), sizeof(std::ptrdiff_t));  // the search's own table
  budget.Scan(static_cast<int64_t>(part.size()));
  const auto search = [&](auto part_begin, auto part_end, auto begin, auto end, auto offset_of) {
    const boost::algorithm::knuth_morris_pratt<decltype(part_begin)> places(part_begin, part_end);
    while (true) {
      const auto [found, after] = places(begin, end);
      if (found == end || !at(offset_of(found))) return;
      begin = after;
    }
  };
  if (from_right) {
    search(part.rbegin(), part.rend(), text.rbegin(), text.rend(),
           [&](auto found) { return static_cast<size_t>(text.rend() - found) - part.size(); });
  } else {
    search(part.begin(), part.end(), text.begin(), text.end(),
           [&](auto found) { return static_cast<size_t>(found - text.begin()); });
  }
}

size_t FindPlace(Budget& budget, absl::string_view text, absl::string_view part, bool last) {
  if (part.empty()) return last ? text.size() : 0;
  size_t place = absl::string_view::npos;
  ForEachPlace(budget, text, part, last, [&](size_t at) {
    place = at;
    return false;
  });
  return place;
}

}  // namespace moonring::data::jinja
