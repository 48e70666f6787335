// Filters that return a string or a number.
#ifndef MOONRING_DATA_TEXT_JINJA_TEXT_FILTERS_H_
#define MOONRING_DATA_TEXT_JINJA_TEXT_FILTERS_H_

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "data/text/jinja/value.h"

namespace moonring::data::jinja {

using Filter = Value (*)(Machine& machine, const Value& value, const Arguments& arguments);

const absl::flat_hash_map<absl::string_view, Filter>& TextFilters();

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_TEXT_FILTERS_H_
