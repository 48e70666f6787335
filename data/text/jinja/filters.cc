#include "data/text/jinja/filters.h"

#include <algorithm>
#include <functional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "data/text/jinja/operators.h"
#include "data/text/jinja/python_text.h"
#include "data/text/jinja/tests.h"
#include "data/text/jinja/text_filters.h"
#include "data/text/jinja/value_text.h"

namespace moonring::data::jinja {
namespace {

using Getter = std::function<Value(const Value&)>;

bool IsGiven(const std::optional<Value>& value) { return value.has_value() && !value->is_none(); }

int64_t CountOf(const std::optional<Value>& value, absl::string_view filter) {
  if (!value.has_value() || !value->is_integer()) Fail(filter, " requires a number");
  if (value->integer() <= 0) Fail(filter, " requires a number above 0, got ", value->integer());
  return value->integer();
}

// A function that reads an attribute of a value: an index, or names and indices separated by dots.
// `absent` replaces undefined results.
Getter AttributeGetter(Machine& machine, const Value& attribute,
                       std::optional<Value> absent = std::nullopt) {
  std::vector<Value> keys;
  if (attribute.is_text()) {
    for (const absl::string_view part : absl::StrSplit(attribute.text(), '.')) {
      int64_t place = 0;
      const bool number = !part.empty() &&
                          std::all_of(part.begin(), part.end(), absl::ascii_isdigit) &&
                          absl::SimpleAtoi(part, &place);
      keys.push_back(number ? Value::Int(place) : Value::Text(std::string(part)));
    }
  } else {
    keys.push_back(attribute);
  }
  return [&machine, keys, absent](const Value& value) {
    Value found = value;
    for (const Value& key : keys) {
      found = Item(machine, found, key);
      if (absent.has_value() && found.is_undefined()) found = *absent;
    }
    return found;
  };
}

// A function that returns the key for ordering and comparing values: an attribute or the value
// itself, in lower case unless case_sensitive.
Getter KeyGetter(Machine& machine, const std::optional<Value>& attribute, bool case_sensitive) {
  const Getter get = IsGiven(attribute) ? AttributeGetter(machine, *attribute)
                                        : [](const Value& value) { return value; };
  return [&machine, get, case_sensitive](const Value& value) {
    const Value key = get(value);
    if (!key.is_text() || case_sensitive) return key;
    machine.budget.Scan(static_cast<int64_t>(key.text().size()));
    return machine.Text(Lower(key.text()));
  };
}

std::vector<Value> Sorted(Machine& machine, const std::vector<Value>& items, const Getter& key,
                          bool reverse) {
  machine.budget.Make(static_cast<int64_t>(items.size()), 3 * sizeof(Value));
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) keyed.emplace_back(key(item), item);
  // The list is reversed before and after sorting, so that equal items keep their order.
  if (reverse) std::reverse(keyed.begin(), keyed.end());
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return Less(machine.budget, a.first, b.first);
  });
  if (reverse) std::reverse(keyed.begin(), keyed.end());
  std::vector<Value> sorted;
  for (auto& [unused, item] : keyed) sorted.push_back(std::move(item));
  return sorted;
}

Value Iterator(Machine& machine, std::vector<Value> items) {
  return machine.List(std::move(items), Sequence::Kind::kIterator);
}

Value LengthFilter(Machine& machine, const Value& value, const Arguments& arguments) {
  arguments.Bind("length", {});
  return Value::Int(Length(machine.budget, value));
}

Value ListFilter(Machine& machine, const Value& value, const Arguments& arguments) {
  arguments.Bind("list", {});
  return machine.List(Items(machine, value));
}

Value First(Machine& machine, const Value& value, const Arguments& arguments) {
  arguments.Bind("first", {});
  if (value.is_text()) machine.budget.Read(static_cast<int64_t>(value.text().size()));
  if (value.is_text())
    return value.text().empty() ? Value::Undefined("No first item, sequence was empty.")
                                : Value::Text(Part(value.text(), {0, 1}));
  if (value.is(Sequence::Kind::kIterator)) {
    const Sequence& sequence = value.sequence();
    return sequence.next < sequence.items.size()
               ? sequence.items[sequence.next++]
               : Value::Undefined("No first item, sequence was empty.");
  }
  const std::vector<Value> items = Items(machine, value);
  return items.empty() ? Value::Undefined("No first item, sequence was empty.") : items.front();
}

Value Last(Machine& machine, const Value& value, const Arguments& arguments) {
  arguments.Bind("last", {});
  if (value.is(Sequence::Kind::kIterator)) Fail("'generator' object is not reversible");
  if (value.is_text() && !value.text().empty()) {
    machine.budget.Scan(static_cast<int64_t>(value.text().size()));
    return Value::Text(Part(value.text(), {-1, std::nullopt}));
  }
  const std::vector<Value> items = Items(machine, value);
  return items.empty() ? Value::Undefined("No last item, sequence was empty.") : items.back();
}

Value Reverse(Machine& machine, const Value& value, const Arguments& arguments) {
  arguments.Bind("reverse", {});
  if (value.is_text()) return Slice(machine, value, Value(), Value(), Value::Int(-1));
  std::vector<Value> items = Items(machine, value);
  std::reverse(items.begin(), items.end());
  const bool is_list = value.is(
      Sequence::Kind::kIterator);  // Python cannot reverse an iterator, so Jinja2 makes a list
  return machine.List(std::move(items),
                      is_list ? Sequence::Kind::kList : Sequence::Kind::kIterator);
}

Value Join(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("join", {"d", "attribute"});
  const std::string between = bound[0].has_value() ? TextOf(machine.budget, *bound[0]) : "";
  const Getter get = IsGiven(bound[1]) ? AttributeGetter(machine, *bound[1])
                                       : [](const Value& item) { return item; };
  std::string joined;
  bool first = true;
  for (const Value& item : Items(machine, value)) {
    const std::string text = TextOf(machine.budget, get(item));
    machine.budget.Make(static_cast<int64_t>(between.size() + text.size()));
    if (!first) joined += between;
    first = false;
    joined += text;
  }
  return Value::Text(std::move(joined));
}

Value ItemsFilter(Machine& machine, const Value& value, const Arguments& arguments) {
  arguments.Bind("items", {});
  if (value.is_undefined()) return Iterator(machine, {});
  if (!value.is(Value::Kind::kDict)) Fail("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  for (const auto& [key, each] : value.dict().entries())
    pairs.push_back(machine.List({key, each}, Sequence::Kind::kTuple));
  return Iterator(machine, std::move(pairs));
}

Value DictSort(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("dictsort", {"case_sensitive", "by", "reverse"});
  const std::string by = bound[1].has_value() && bound[1]->is_text() ? bound[1]->text() : "key";
  if (by != "key" && by != "value") Fail("You can only sort by either \"key\" or \"value\"");
  CheckDefined(value);
  if (!value.is(Value::Kind::kDict))
    Fail("'", value.TypeName(), " object' has no attribute 'items'");
  const std::vector<Value> pairs = Items(machine, ItemsFilter(machine, value, {}));
  return machine.List(Sorted(machine, pairs,
                             KeyGetter(machine, Value::Int(by == "key" ? 0 : 1), TruthOf(bound[0])),
                             TruthOf(bound[2])));
}

Value Sort(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("sort", {"reverse", "case_sensitive", "attribute"});
  std::vector<Getter> keys;
  if (IsGiven(bound[2]) && bound[2]->is_text()) {
    for (const absl::string_view part : absl::StrSplit(bound[2]->text(), ','))
      keys.push_back(KeyGetter(machine, Value::Text(std::string(part)), TruthOf(bound[1])));
  } else {
    keys.push_back(KeyGetter(machine, bound[2], TruthOf(bound[1])));
  }
  const Getter key = [&](const Value& item) {
    std::vector<Value> parts;
    for (const Getter& get : keys) parts.push_back(get(item));
    return parts.size() == 1 ? parts[0] : Value::List(std::move(parts));
  };
  return machine.List(Sorted(machine, Items(machine, value), key, TruthOf(bound[0])));
}

Value Unique(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("unique", {"case_sensitive", "attribute"});
  const Getter key = KeyGetter(machine, bound[1], TruthOf(bound[0]));
  Dict seen;
  std::vector<Value> items;
  for (const Value& item : Items(machine, value)) {
    const Value own = key(item);
    CheckHashable(machine.budget, own);
    if (seen.Find(machine.budget, own) != nullptr) continue;
    seen.Set(machine.budget, own, Value());
    items.push_back(item);
  }
  return Iterator(machine, std::move(items));
}

Value Extreme(Machine& machine, const Value& value, const Arguments& arguments, bool largest) {
  const Bound bound = arguments.Bind(largest ? "max" : "min", {"case_sensitive", "attribute"});
  const Getter key = KeyGetter(machine, bound[1], TruthOf(bound[0]));
  const std::vector<Value> items = Items(machine, value);
  if (items.empty()) return Value::Undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    const Value mine = key(items[i]), other = key(items[best]);
    if (largest ? Less(machine.budget, other, mine) : Less(machine.budget, mine, other)) best = i;
  }
  return items[best];
}
Value Min(Machine& machine, const Value& value, const Arguments& arguments) {
  return Extreme(machine, value, arguments, false);
}
Value Max(Machine& machine, const Value& value, const Arguments& arguments) {
  return Extreme(machine, value, arguments, true);
}

Value Sum(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("sum", {"attribute", "start"});
  const Getter get = IsGiven(bound[0]) ? AttributeGetter(machine, *bound[0])
                                       : [](const Value& item) { return item; };
  Value sum = bound[1].value_or(Value::Int(0));
  if (sum.is_text()) Fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : Items(machine, value)) sum = Arithmetic(machine, "+", sum, get(item));
  return sum;
}

// Lists of `count` items each; the last one is padded if fill_with is given.
Value Batch(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("batch", {"linecount", "fill_with"});
  const int64_t count = CountOf(bound[0], "batch");
  std::vector<Value> lists, list;
  for (const Value& item : Items(machine, value)) {
    if (static_cast<int64_t>(list.size()) == count)
      lists.push_back(machine.List(std::exchange(list, {})));
    list.push_back(item);
  }
  if (!list.empty()) {
    if (IsGiven(bound[1])) {
      machine.budget.Make(count, 32);
      list.resize(count, *bound[1]);
    }
    lists.push_back(machine.List(std::move(list)));
  }
  return Iterator(machine, std::move(lists));
}

// `slices` lists; the first ones have one item more if the items cannot be distributed evenly.
Value Slices(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("slice", {"slices", "fill_with"});
  const int64_t slices = CountOf(bound[0], "slice");
  const std::vector<Value> items = Items(machine, value);
  const int64_t each = static_cast<int64_t>(items.size()) / slices,
                longer = static_cast<int64_t>(items.size()) % slices;
  machine.budget.Make(slices, 64);
  std::vector<Value> lists;
  auto next = items.begin();
  for (int64_t n = 0; n < slices; ++n) {
    const auto end = next + each + (n < longer ? 1 : 0);
    std::vector<Value> list(next, end);
    next = end;
    if (IsGiven(bound[1]) && n >= longer) list.push_back(*bound[1]);
    lists.push_back(machine.List(std::move(list)));
  }
  return Iterator(machine, std::move(lists));
}

// The items of a value for map, select and reject; none if the value is false, even if it is not
// iterable.
std::vector<Value> ItemsIfTrue(Machine& machine, const Value& value) {
  return value.Truth() ? Items(machine, value) : std::vector<Value>();
}

// map: applies another filter with its arguments, or reads an attribute (attribute=).
Value Map(Machine& machine, const Value& value, const Arguments& arguments) {
  std::vector<Value> items = ItemsIfTrue(machine, value);
  if (arguments.positional.empty()) {
    const Bound bound = arguments.Bind("map", {"attribute", "default"});
    if (!bound[0].has_value()) Fail("map requires a filter argument");
    const Getter get = AttributeGetter(machine, *bound[0], bound[1]);
    for (Value& item : items) item = get(item);
  } else {
    const std::string name = TextOf(machine.budget, arguments.positional[0]);
    const Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()},
                         arguments.named};
    for (Value& item : items) item = ApplyFilter(machine, name, item, rest);
  }
  return Iterator(machine, std::move(items));
}

// select and reject (by value), selectattr and rejectattr (by an attribute): the items for which a
// test is true or, without a test, those that are true.
Value Chosen(Machine& machine, const Value& value, const Arguments& arguments, bool by_attribute,
             bool wanted) {
  std::vector<Value> given = arguments.positional;
  Getter get = [](const Value& item) { return item; };
  if (by_attribute) {
    if (given.empty()) Fail("Missing parameter for attribute name");
    get = AttributeGetter(machine, given[0]);
    given.erase(given.begin());
  }
  std::optional<std::string> test;
  if (!given.empty()) {
    test = TextOf(machine.budget, given[0]);
    given.erase(given.begin());
  }
  const Arguments rest{std::move(given), arguments.named};
  std::vector<Value> chosen;
  for (const Value& item : ItemsIfTrue(machine, value)) {
    const Value tested = get(item);
    if ((test.has_value() ? HoldsTest(machine, *test, tested, rest) : tested.Truth()) == wanted)
      chosen.push_back(item);
  }
  return Iterator(machine, std::move(chosen));
}
Value Select(Machine& machine, const Value& value, const Arguments& arguments) {
  return Chosen(machine, value, arguments, false, true);
}
Value Reject(Machine& machine, const Value& value, const Arguments& arguments) {
  return Chosen(machine, value, arguments, false, false);
}
Value SelectAttribute(Machine& machine, const Value& value, const Arguments& arguments) {
  return Chosen(machine, value, arguments, true, true);
}
Value RejectAttribute(Machine& machine, const Value& value, const Arguments& arguments) {
  return Chosen(machine, value, arguments, true, false);
}

// attr: only an attribute, never an item.
Value AttributeFilter(Machine& machine, const Value& value, const Arguments& arguments) {
  const Bound bound = arguments.Bind("attr", {"name"});
  if (!bound[0].has_value()) Fail("attr requires a name");
  const std::string name = TextOf(machine.budget, *bound[0]);
  const Value found = Attribute(machine, value, name);
  const bool item = value.is(Value::Kind::kDict) && !found.is(Value::Kind::kObject);
  return item ? Value::Undefined(absl::StrCat("'dict object' has no attribute ", Quoted(name)))
              : found;
}

const absl::flat_hash_map<absl::string_view, Filter>& ListFilters() {
  static const auto* const filters = new absl::flat_hash_map<absl::string_view, Filter>{
      {"attr", &AttributeFilter},
      {"batch", &Batch},
      {"count", &LengthFilter},
      {"dictsort", &DictSort},
      {"first", &First},
      {"items", &ItemsFilter},
      {"join", &Join},
      {"last", &Last},
      {"length", &LengthFilter},
      {"list", &ListFilter},
      {"map", &Map},
      {"max", &Max},
      {"min", &Min},
      {"reject", &Reject},
      {"rejectattr", &RejectAttribute},
      {"reverse", &Reverse},
      {"select", &Select},
      {"selectattr", &SelectAttribute},
      {"slice", &Slices},
      {"sort", &Sort},
      {"sum", &Sum},
      {"unique", &Unique},
  };
  return *filters;
}

Filter FindFilter(absl::string_view name) {
  for (const auto* filters : {&TextFilters(), &ListFilters()}) {
    if (const auto found = filters->find(name); found != filters->end()) return found->second;
  }
  return nullptr;
}

}  // namespace

bool IsFilter(absl::string_view name) { return FindFilter(name) != nullptr; }

Value ApplyFilter(Machine& machine, absl::string_view name, const Value& value,
                  const Arguments& arguments) {
  static constexpr absl::string_view kOthers[] = {
      "filesizeformat", "forceescape", "groupby", "pprint",   "random",
      "striptags",      "urlencode",   "urlize",  "wordwrap", "xmlattr"};
  machine.budget.Step();
  if (const Filter filter = FindFilter(name); filter != nullptr)
    return filter(machine, value, arguments);
  if (std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers))
    Unsupported("the filter '", name, "'");
  Fail("No filter named '", name, "'.");
}

}  // namespace moonring::data::jinja
