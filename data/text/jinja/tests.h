// Jinja2's tests, written as `value is name(arguments)`.
#ifndef MOONRING_DATA_TEXT_JINJA_TESTS_H_
#define MOONRING_DATA_TEXT_JINJA_TESTS_H_

#include "absl/strings/string_view.h"
#include "data/text/jinja/value.h"

namespace moonring::data::jinja {

// INVALID_ARGUMENT for a test that Jinja2 lacks too.
bool HoldsTest(Machine& machine, absl::string_view name, const Value& value,
               const Arguments& arguments);

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_TESTS_H_
