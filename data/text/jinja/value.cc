#include "data/text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/text/ordered_json.h"
#include "data/text/jinja/operators.h"
#include "data/text/unicode/utf8.h"

namespace moonring::data::jinja {
namespace {

constexpr int64_t kValueBytes = 32;

void CheckDepth(Budget& budget, int depth) {
  if (depth > budget.most_depth())
    Fail("values within one another: more than ", budget.most_depth());
}

}  // namespace

void Dict::Set(Budget& budget, Value key, Value value) {
  if (key.is_text()) {
    budget.Read(static_cast<int64_t>(key.text().size()));
    budget.Make(static_cast<int64_t>(key.text().size()));
  }
  const std::optional<std::string> other = key.is_text() ? std::nullopt : KeyText(budget, key);
  auto& places = key.is_text() ? texts_ : others_;
  depth_ = std::max({depth_, 1 + key.depth(), 1 + value.depth()});
  if (key.is_text() || other.has_value()) {
    const auto [there, is_new] =
        places.emplace(key.is_text() ? key.text() : *other, entries_.size());
    if (!is_new) {
      entries_[there->second].second = std::move(value);
      return;
    }
  }
  entries_.emplace_back(std::move(key), std::move(value));
}

void Dict::Set(std::string key, Value value) {
  depth_ = std::max(depth_, 1 + value.depth());
  const auto [there, is_new] = texts_.emplace(key, entries_.size());
  if (is_new) {
    entries_.emplace_back(Value::Text(std::move(key)), std::move(value));
  } else {
    entries_[there->second].second = std::move(value);
  }
}

const Value* Dict::Find(absl::string_view key) const {
  const auto found = texts_.find(key);
  return found == texts_.end() ? nullptr : &entries_[found->second].second;
}

const Value* Dict::Find(Budget& budget, const Value& key) const {
  if (key.is_text()) {
    budget.Read(static_cast<int64_t>(key.text().size()));
    return Find(absl::string_view(key.text()));
  }
  if (others_.empty()) return nullptr;
  const std::optional<std::string> other = KeyText(budget, key);
  if (!other.has_value()) return nullptr;
  const auto found = others_.find(*other);
  return found == others_.end() ? nullptr : &entries_[found->second].second;
}

Value Value::List(std::vector<Value> items, Sequence::Kind kind) {
  Sequence sequence{kind, std::move(items)};
  for (const Value& item : sequence.items)
    sequence.depth = std::max(sequence.depth, 1 + item.depth());
  return Value(std::make_shared<const Sequence>(std::move(sequence)));
}

Value Value::Of(const base::OrderedJson& json, int64_t most_depth) {
  if (most_depth < 0) Fail("values within one another: too many");
  switch (json.type()) {
    case base::OrderedJson::value_t::boolean:
      return Bool(json.get<bool>());
    case base::OrderedJson::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return Float(json.get<double>());
      return Int(json.get<int64_t>());
    case base::OrderedJson::value_t::number_integer:
      return Int(json.get<int64_t>());
    case base::OrderedJson::value_t::number_float:
      return Float(json.get<double>());
    case base::OrderedJson::value_t::string:
      return Text(ReplaceMalformedUtf8(json.get_ref<const std::string&>()));
    case base::OrderedJson::value_t::array: {
      std::vector<Value> items;
      for (const auto& item : json) items.push_back(Of(item, most_depth - 1));
      return List(std::move(items));
    }
    case base::OrderedJson::value_t::object: {
      Dict dict;
      for (const auto& [name, value] : json.items())
        dict.Set(ReplaceMalformedUtf8(name), Of(value, most_depth - 1));
      return Of(std::move(dict));
    }
    default:
      return Value();
  }
}

bool Value::Truth() const {
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return integer() != 0;
    case Kind::kFloat:
      return number() != 0;
    case Kind::kText:
      return !text().empty();
    case Kind::kSequence:
      return sequence().kind == Sequence::Kind::kIterator || !sequence().items.empty();
    case Kind::kDict:
      return !dict().entries().empty();
    case Kind::kObject:
      return true;
  }
  return false;
}

std::string Value::TypeName() const {
  static const char* const kNames[] = {"Undefined", "NoneType", "bool", "int", "float", "str"};
  static const char* const kSequences[] = {"list",        "tuple",      "range",    "dict_keys",
                                           "dict_values", "dict_items", "generator"};
  if (is(Kind::kObject)) return object().TypeName();
  if (is(Kind::kDict)) return "dict";
  return is(Kind::kSequence) ? kSequences[static_cast<int>(sequence().kind)]
                             : kNames[value_.index()];
}

int Value::depth() const {
  return is(Kind::kSequence) ? sequence().depth : is(Kind::kDict) ? dict().depth() : 0;
}

bool Value::SameObject(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kBool:
    case Kind::kInt:
      return integer() == other.integer();
    case Kind::kFloat:
      return number() == other.number();
    case Kind::kText:
      return text() == other.text();
    case Kind::kSequence:
      return &sequence() == &other.sequence();
    case Kind::kDict:
      return &dict() == &other.dict();
    case Kind::kObject:
      return &object() == &other.object();
  }
  return false;
}

Bound Arguments::Bind(absl::string_view callee,
                      const std::vector<absl::string_view>& parameters) const {
  if (positional.size() > parameters.size()) {
    Fail(callee, "() takes ", parameters.size(),
         parameters.size() == 1 ? " argument" : " arguments", " but ", positional.size(),
         " were given");
  }
  std::vector<std::optional<Value>> bound(positional.begin(), positional.end());
  bound.resize(parameters.size());
  for (const auto& [name, value] : named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end())
      Fail(callee, "() got an unexpected keyword argument '", name, "'");
    std::optional<Value>& place = bound[found - parameters.begin()];
    if (place.has_value()) Fail(callee, "() got multiple values for argument '", name, "'");
    place = value;
  }
  return bound;
}

Value Object::Call(Machine&, const Arguments&) {
  Fail("'", TypeName(), "' object is not callable");
}

Value Machine::List(std::vector<Value> items, Sequence::Kind kind) {
  budget.Make(static_cast<int64_t>(items.size()), kValueBytes);
  Value list = Value::List(std::move(items), kind);
  CheckDepth(budget, list.depth());
  return list;
}

Value Machine::Of(Dict dict) {
  budget.Make(static_cast<int64_t>(dict.entries().size()), 4 * kValueBytes);
  CheckDepth(budget, dict.depth());
  return Value::Of(std::move(dict));
}

}  // namespace moonring::data::jinja
