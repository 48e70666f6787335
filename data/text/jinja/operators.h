// Python's operators on values, and Jinja2's attribute and item access. Python's exceptions become
// an Error with Python's message.
#ifndef MOONRING_DATA_TEXT_JINJA_OPERATORS_H_
#define MOONRING_DATA_TEXT_JINJA_OPERATORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/text/jinja/value.h"

namespace moonring::data::jinja {

bool Equal(Budget& budget, const Value& a, const Value& b);
bool Less(Budget& budget, const Value& a, const Value& b);
bool Contains(Budget& budget, const Value& container, const Value& item);

// ==, !=, <, <=, >, >=, in, not in
bool Compare(Budget& budget, absl::string_view operation, const Value& a, const Value& b);

// + - * / // % **
Value Arithmetic(Machine& machine, absl::string_view operation, const Value& a, const Value& b);
Value Negative(const Value& value);

// The items of a loop over the value. An iterator returns its remaining items and is then
// exhausted.
std::vector<Value> Items(Machine& machine, const Value& value);
int64_t Length(Budget& budget, const Value& value);

// x.name: an attribute, otherwise an item. x[key]: an item, otherwise an attribute. Undefined if
// there is neither.
Value Attribute(Machine& machine, const Value& value, absl::string_view name);
Value Item(Machine& machine, const Value& value, const Value& key);

// value[begin:end:step]
Value Slice(Machine& machine, const Value& value, const Value& begin, const Value& end,
            const Value& step);

// Throws if `key` cannot be a dictionary's key.
void CheckHashable(Budget& budget, const Value& key);

// A string that is equal for two keys exactly if the keys are equal. nullopt for NaN and values
// that contain it, which equal nothing, and for unhashable values.
std::optional<std::string> KeyText(Budget& budget, const Value& key);

// Throws if the value is undefined.
void CheckDefined(const Value& value);

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_OPERATORS_H_
