// Python's operators on values, and Jinja2's ways into them. What Python raises is an Error in
// Python's words.
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

// What a loop over it meets. An iterator gives what it has not given yet, and has then nothing
// left.
std::vector<Value> Items(Machine& machine, const Value& value);
int64_t Length(Budget& budget, const Value& value);

// x.name: an attribute, else an item. x[key]: an item, else an attribute. Undefined where there is
// neither.
Value Attribute(Machine& machine, const Value& value, absl::string_view name);
Value Item(Machine& machine, const Value& value, const Value& key);

// value[begin:end:step]
Value Slice(Machine& machine, const Value& value, const Value& begin, const Value& end,
            const Value& step);

// Throws where `key` cannot be a dictionary's key.
void CheckHashable(Budget& budget, const Value& key);

// A text that two keys share exactly where they are equal (Equal, above). nullopt for NaN, for
// values that hold one, which equal nothing, and for what is not hashable.
std::optional<std::string> KeyText(Budget& budget, const Value& key);

// Where a value must not be undefined.
void CheckDefined(const Value& value);

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_OPERATORS_H_
