#include "data/text/jinja/methods.h"

#include <algorithm>
#include <functional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "data/text/jinja/operators.h"
#include "data/text/jinja/python_text.h"
#include "data/text/jinja/text_format.h"
#include "data/text/jinja/text_search.h"
#include "data/text/jinja/value_text.h"

namespace moonring::data::jinja {
namespace {

using Names = absl::flat_hash_set<absl::string_view>;

const Names& TextNames() {
  static const auto* const names = new Names{
      "capitalize",   "casefold",    "center",    "count",      "encode",       "endswith",
      "expandtabs",   "find",        "format",    "format_map", "index",        "isalnum",
      "isalpha",      "isascii",     "isdecimal", "isdigit",    "isidentifier", "islower",
      "isnumeric",    "isprintable", "isspace",   "istitle",    "isupper",      "join",
      "ljust",        "lower",       "lstrip",    "maketrans",  "partition",    "removeprefix",
      "removesuffix", "replace",     "rfind",     "rindex",     "rjust",        "rpartition",
      "rsplit",       "rstrip",      "split",     "splitlines", "startswith",   "strip",
      "swapcase",     "title",       "translate", "upper",      "zfill"};
  return *names;
}
const Names& ListNames() {
  static const auto* const names =
      new Names{"append", "clear", "copy",   "count",   "extend", "index",
                "insert", "pop",   "remove", "reverse", "sort"};
  return *names;
}
const Names& DictNames() {
  static const auto* const names =
      new Names{"clear", "copy",    "fromkeys",   "get",    "items", "keys",
                "pop",   "popitem", "setdefault", "update", "values"};
  return *names;
}
const Names& TupleNames() {
  static const auto* const names = new Names{"count", "index"};
  return *names;
}
const Names& NumberNames() {
  static const auto* const names =
      new Names{"as_integer_ratio", "bit_count", "bit_length", "conjugate", "from_bytes",
                "fromhex",          "hex",       "is_integer", "to_bytes"};
  return *names;
}

const Names* NamesOf(const Value& value) {
  if (value.is_text()) return &TextNames();
  if (value.is(Value::Kind::kDict)) return &DictNames();
  if (value.is_number()) return &NumberNames();
  if (value.is(Sequence::Kind::kList)) return &ListNames();
  return value.is(Sequence::Kind::kTuple) || value.is(Sequence::Kind::kRange) ? &TupleNames()
                                                                              : nullptr;
}

const std::string& TextArgument(const std::optional<Value>& value, absl::string_view method) {
  if (!value.has_value()) Fail(method, "() requires an argument");
  if (!value->is_text()) Fail(method, "() argument must be str, not ", value->TypeName());
  return value->text();
}

std::optional<std::string> OptionalText(const std::optional<Value>& value,
                                        absl::string_view method) {
  if (!value.has_value() || value->is_none()) return std::nullopt;
  return TextArgument(value, method);
}

int64_t IntegerArgument(const std::optional<Value>& value, int64_t absent,
                        absl::string_view method) {
  if (!value.has_value()) return absent;
  if (!value->is_integer())
    Fail(method, "(): '", value->TypeName(), "' object cannot be interpreted as an integer");
  return value->integer();
}

Range RangeOf(const Bound& bound, absl::string_view method) {
  const auto index = [&](size_t i) {
    return bound[i].has_value() && !bound[i]->is_none()
               ? std::optional(IntegerArgument(bound[i], 0, method))
               : std::nullopt;
  };
  return {index(1), index(2)};
}

Value Texts(Machine& machine, std::vector<std::string> texts,
            Sequence::Kind kind = Sequence::Kind::kList) {
  std::vector<Value> values;
  for (std::string& text : texts) values.push_back(machine.Text(std::move(text)));
  return machine.List(std::move(values), kind);
}

// A call of a string method; its name is used in messages.
struct TextCall {
  Machine& machine;
  const std::string& text;
  absl::string_view name;
  const Arguments& arguments;
  bool markup;

  // Text inserted into markup is escaped unless it is markup itself.
  std::string Put(const Value& value) const {
    return markup && !value.is_markup() ? Escaped(machine.budget, value.text()) : value.text();
  }
  Bound Bind(const std::vector<absl::string_view>& parameters) const {
    return arguments.Bind(name, parameters);
  }
  Value Made(std::string made) const { return machine.Text(std::move(made)); }
};

Value StripCall(const TextCall& call, Side side) {
  const Bound bound = call.Bind({"chars"});
  return call.Made(std::string(Strip(call.text, OptionalText(bound[0], call.name), side)));
}

Value SplitCall(const TextCall& call, bool from_right) {
  const Bound bound = call.Bind({"sep", "maxsplit"});
  call.machine.budget.Make(static_cast<int64_t>(call.text.size()));
  return Texts(call.machine,
               Split(call.machine.budget, call.text, OptionalText(bound[0], call.name),
                     IntegerArgument(bound[1], -1, call.name), from_right));
}

// startswith and endswith, with one string or a tuple of strings.
Value AffixCall(const TextCall& call, bool at_end) {
  const Bound bound = call.Bind({"prefix", "start", "end"});
  const Range range = RangeOf(bound, call.name);
  const bool whole = !range.begin.has_value() && !range.end.has_value();
  if (!whole) call.machine.budget.Scan(static_cast<int64_t>(call.text.size()));
  const std::string cut = whole ? std::string() : Part(call.text, range);
  const std::string& part = whole ? call.text : cut;
  const auto fits = [&](const std::string& affix) {
    call.machine.budget.Read(static_cast<int64_t>(affix.size()));
    return at_end ? absl::EndsWith(part, affix) : absl::StartsWith(part, affix);
  };
  if (!bound[0].has_value() || !bound[0]->is(Sequence::Kind::kTuple))
    return Value::Bool(fits(TextArgument(bound[0], call.name)));
  const std::vector<Value>& any = bound[0]->sequence().items;
  return Value::Bool(std::any_of(any.begin(), any.end(), [&](const Value& each) {
    return fits(TextArgument(each, call.name));
  }));
}

Value FindCall(const TextCall& call, bool last, bool must) {
  const Bound bound = call.Bind({"sub", "start", "end"});
  const int64_t place = Find(call.machine.budget, call.text, TextArgument(bound[0], call.name),
                             RangeOf(bound, call.name), last);
  if (place < 0 && must) Fail("substring not found");
  return Value::Int(place);
}

Value PartitionCall(const TextCall& call, bool last) {
  const Bound bound = call.Bind({"sep"});
  const std::string& separator = TextArgument(bound[0], call.name);
  if (separator.empty()) Fail("empty separator");
  const size_t at = FindPlace(call.machine.budget, call.text, separator, last);
  std::vector<std::string> parts;
  if (at != std::string::npos) {
    parts = {call.text.substr(0, at), separator, call.text.substr(at + separator.size())};
  } else {
    parts = last ? std::vector<std::string>{"", "", call.text}
                 : std::vector<std::string>{call.text, "", ""};
  }
  return Texts(call.machine, std::move(parts), Sequence::Kind::kTuple);
}

Value PadCall(const TextCall& call, Side filled) {
  const Bound bound = call.Bind({"width", "fillchar"});
  if (!bound[0].has_value()) Fail(call.name, "() requires a width");
  const std::u32string fill =
      CodePoints(bound[1].has_value() ? TextArgument(bound[1], call.name) : " ");
  if (fill.size() != 1) Fail("The fill character must be exactly one character long");
  return call.Made(Pad(call.machine.budget, call.text, IntegerArgument(bound[0], 0, call.name),
                       fill[0], filled));
}

Value ZeroFillCall(const TextCall& call) {
  const Bound bound = call.Bind({"width"});
  const bool sign = absl::StartsWith(call.text, "-") || absl::StartsWith(call.text, "+");
  const int64_t width = IntegerArgument(bound[0], 0, call.name) - (sign ? 1 : 0);
  return call.Made(call.text.substr(0, sign ? 1 : 0) + Pad(call.machine.budget,
                                                           call.text.substr(sign ? 1 : 0), width,
                                                           U'0', Side::kLeft));
}

Value JoinCall(const TextCall& call) {
  const Bound bound = call.Bind({"iterable"});
  if (!bound[0].has_value()) Fail("join() requires an argument");
  std::string joined;
  bool first = true;
  for (const Value& item : Items(call.machine, *bound[0])) {
    if (!item.is_text()) Fail("sequence item: expected str instance, ", item.TypeName(), " found");
    const std::string text = call.Put(item);
    call.machine.budget.Make(static_cast<int64_t>(call.text.size() + text.size()));
    if (!first) joined += call.text;
    first = false;
    joined += text;
  }
  return Value::Text(std::move(joined));
}

Value RemoveCall(const TextCall& call, bool at_end) {
  const Bound bound = call.Bind({"affix"});
  const std::string& affix = TextArgument(bound[0], call.name);
  absl::string_view text = call.text;
  if (at_end ? absl::EndsWith(text, affix) : absl::StartsWith(text, affix)) {
    at_end ? text.remove_suffix(affix.size()) : text.remove_prefix(affix.size());
  }
  return call.Made(std::string(text));
}

using TextMethod = std::function<Value(const TextCall&)>;

TextMethod Simple(std::string (*function)(const std::string&)) {
  return [function](const TextCall& call) {
    call.Bind({});
    return call.Made(function(call.text));
  };
}
TextMethod Is(const char* what) {
  return [what](const TextCall& call) {
    call.Bind({});
    return Value::Bool(IsAll(call.text, what));
  };
}

const absl::flat_hash_map<absl::string_view, TextMethod>& TextMethods() {
  static const auto* const methods = new absl::flat_hash_map<absl::string_view, TextMethod>{
      {"upper", Simple(&Upper)},
      {"lower", Simple(&Lower)},
      {"capitalize", Simple(&Capitalize)},
      {"title", Simple(&Title)},
      {"isalpha", Is("alpha")},
      {"isdigit", Is("digit")},
      {"isalnum", Is("alnum")},
      {"isspace", Is("space")},
      {"isnumeric", Is("numeric")},
      {"isdecimal", Is("decimal")},
      {"isascii", Is("ascii")},
      {"isupper", Is("upper")},
      {"islower", Is("lower")},
      {"strip", [](const TextCall& call) { return StripCall(call, Side::kBoth); }},
      {"lstrip", [](const TextCall& call) { return StripCall(call, Side::kLeft); }},
      {"rstrip", [](const TextCall& call) { return StripCall(call, Side::kRight); }},
      {"split", [](const TextCall& call) { return SplitCall(call, false); }},
      {"rsplit", [](const TextCall& call) { return SplitCall(call, true); }},
      {"splitlines",
       [](const TextCall& call) {
         const Bound bound = call.Bind({"keepends"});
         return Texts(call.machine, SplitLines(call.machine.budget, call.text,
                                               bound[0].has_value() && bound[0]->Truth()));
       }},
      {"startswith", [](const TextCall& call) { return AffixCall(call, false); }},
      {"endswith", [](const TextCall& call) { return AffixCall(call, true); }},
      {"find", [](const TextCall& call) { return FindCall(call, false, false); }},
      {"rfind", [](const TextCall& call) { return FindCall(call, true, false); }},
      {"index", [](const TextCall& call) { return FindCall(call, false, true); }},
      {"rindex", [](const TextCall& call) { return FindCall(call, true, true); }},
      {"count",
       [](const TextCall& call) {
         const Bound bound = call.Bind({"sub", "start", "end"});
         return Value::Int(Count(call.machine.budget, call.text, TextArgument(bound[0], call.name),
                                 RangeOf(bound, call.name)));
       }},
      {"replace",
       [](const TextCall& call) {
         const Bound bound = call.Bind({"old", "new", "count"});
         TextArgument(bound[1], call.name);
         return call.Made(Replace(call.machine.budget, call.text, TextArgument(bound[0], call.name),
                                  call.Put(*bound[1]), IntegerArgument(bound[2], -1, call.name)));
       }},
      {"partition", [](const TextCall& call) { return PartitionCall(call, false); }},
      {"rpartition", [](const TextCall& call) { return PartitionCall(call, true); }},
      {"ljust", [](const TextCall& call) { return PadCall(call, Side::kRight); }},
      {"rjust", [](const TextCall& call) { return PadCall(call, Side::kLeft); }},
      {"center", [](const TextCall& call) { return PadCall(call, Side::kBoth); }},
      {"zfill", &ZeroFillCall},
      {"join", &JoinCall},
      {"removeprefix", [](const TextCall& call) { return RemoveCall(call, false); }},
      {"removesuffix", [](const TextCall& call) { return RemoveCall(call, true); }},
      {"format",
       [](const TextCall& call) {
         return call.Made(BraceFormat(call.machine, call.text, call.arguments));
       }},
  };
  return *methods;
}

// The entries of a dictionary as keys, values or pairs.
Value View(Machine& machine, const Dict& dict, Sequence::Kind kind) {
  machine.budget.Make(static_cast<int64_t>(dict.entries().size()), 32);
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries()) {
    items.push_back(kind == Sequence::Kind::kItems
                        ? machine.List({key, value}, Sequence::Kind::kTuple)
                    : kind == Sequence::Kind::kKeys ? key
                                                    : value);
  }
  return machine.List(std::move(items), kind);
}

Value CallDictMethod(Machine& machine, const Value& value, absl::string_view name,
                     const Arguments& arguments) {
  if (name == "get") {
    const Bound bound = arguments.Bind(name, {"key", "default"});
    if (!bound[0].has_value()) Fail("get() requires a key");
    CheckHashable(machine.budget, *bound[0]);
    const Value* found = value.dict().Find(machine.budget, *bound[0]);
    return found != nullptr ? *found : bound[1].value_or(Value());
  }
  if (name == "fromkeys") Unsupported("dict.fromkeys");
  arguments.Bind(name, {});
  if (name == "copy") return value;
  return View(machine, value.dict(),
              name == "items"  ? Sequence::Kind::kItems
              : name == "keys" ? Sequence::Kind::kKeys
                               : Sequence::Kind::kValues);
}

Value CallSequenceMethod(Machine& machine, const Value& value, absl::string_view name,
                         const Arguments& arguments) {
  const std::vector<Value>& items = value.sequence().items;
  if (name == "copy") return arguments.Bind(name, {}), value;
  const Bound bound = arguments.Bind(name, {"value", "start", "stop"});
  if (!bound[0].has_value()) Fail(name, "() requires a value");
  const auto is = [&](const Value& item) { return Equal(machine.budget, item, *bound[0]); };
  if (name == "count") return Value::Int(std::count_if(items.begin(), items.end(), is));
  if (bound[1].has_value() || bound[2].has_value()) Unsupported("list.index with a range");
  const auto found = std::find_if(items.begin(), items.end(), is);
  if (found == items.end())
    Fail(ReprOf(machine.budget, *bound[0]), " is not in ", value.TypeName());
  return Value::Int(found - items.begin());
}

// Converts the result of a markup's method to markup.
Value AsMarkup(Machine& machine, const Value& value) {
  if (value.is_text()) {
    machine.budget.Make(static_cast<int64_t>(value.text().size()));
    return Value::Markup(value.text());
  }
  if (!value.is(Value::Kind::kSequence)) return value;
  std::vector<Value> items;
  for (const Value& item : value.sequence().items) items.push_back(AsMarkup(machine, item));
  return machine.List(std::move(items), value.sequence().kind);
}

}  // namespace

bool HasMethod(const Value& value, absl::string_view name) {
  const Names* names = NamesOf(value);
  return names != nullptr && names->contains(name);
}

bool IsUnsafe(const Value& value, absl::string_view name) {
  static const auto* const list =
      new Names{"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
  static const auto* const dict = new Names{"clear", "pop", "popitem", "setdefault", "update"};
  if (value.is(Value::Kind::kDict)) return dict->contains(name);
  return value.is(Sequence::Kind::kList) && list->contains(name);
}

Value CallMethod(Machine& machine, const Value& value, absl::string_view name,
                 const Arguments& arguments) {
  if (value.is(Value::Kind::kDict)) return CallDictMethod(machine, value, name, arguments);
  if (value.is(Value::Kind::kSequence)) return CallSequenceMethod(machine, value, name, arguments);
  if (value.is_text()) {
    const auto found = TextMethods().find(name);
    if (found != TextMethods().end()) {
      // Charges for the whole text, except for startswith and endswith, which only read as many
      // bytes as their argument has.
      if (name != "startswith" && name != "endswith")
        machine.budget.Scan(static_cast<int64_t>(value.text().size()));
      if (value.is_markup() && name == "format") Unsupported("the method ", name, " of markup");
      const Value made = found->second({machine, value.text(), name, arguments, value.is_markup()});
      return value.is_markup() ? AsMarkup(machine, made) : made;
    }
  }
  Unsupported("the method ", value.TypeName(), ".", name);
}

}  // namespace moonring::data::jinja
