// Jinja2's filters (value | name(arguments)), with tojson as Transformers has it.
#ifndef MOONRING_DATA_TEXT_JINJA_FILTERS_H_
#define MOONRING_DATA_TEXT_JINJA_FILTERS_H_

#include "absl/strings/string_view.h"
#include "data/text/jinja/value.h"

namespace moonring::data::jinja {

bool IsFilter(absl::string_view name);

// UNIMPLEMENTED for one that Jinja2 has and this has not; INVALID_ARGUMENT for one that neither
// has.
Value ApplyFilter(Machine& machine, absl::string_view name, const Value& value,
                  const Arguments& arguments);

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_FILTERS_H_
