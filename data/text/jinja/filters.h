// Jinja2's filters, written as `value | name(arguments)`. The filter tojson is that of
// Transformers.
#ifndef MOONRING_DATA_TEXT_JINJA_FILTERS_H_
#define MOONRING_DATA_TEXT_JINJA_FILTERS_H_

#include "absl/strings/string_view.h"
#include "data/text/jinja/value.h"

namespace moonring::data::jinja {

bool IsFilter(absl::string_view name);

// UNIMPLEMENTED for a filter of Jinja2 that is missing here; INVALID_ARGUMENT for an unknown
// filter.
Value ApplyFilter(Machine& machine, absl::string_view name, const Value& value,
                  const Arguments& arguments);

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_FILTERS_H_
