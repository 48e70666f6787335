// A Python value of one of the types that templates use.
//
// Strings, lists and dictionaries are immutable (Transformers' sandbox does not let templates
// change them), so copies share them. Mutable values, namespaces and loops, are Objects owned by
// the rendering. A value only points to its Object, so values cannot form cycles.
#ifndef MOONRING_DATA_TEXT_JINJA_VALUE_H_
#define MOONRING_DATA_TEXT_JINJA_VALUE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "base/text/ordered_json_fwd.h"
#include "data/text/jinja/budget.h"

namespace moonring::data::jinja {

class Value;
class Object;

// Lists and other iterables. An iterator returns each value once: `next` is the number of values
// returned so far.
struct Sequence {
  enum class Kind { kList, kTuple, kRange, kKeys, kValues, kItems, kIterator };
  Kind kind = Kind::kList;
  std::vector<Value> items;
  mutable size_t next = 0;
  int depth = 1;  // of nested values
};

// A dictionary in insertion order; for duplicate keys, the last value is stored at the position of
// the first.
class Dict {
 public:
  void Set(Budget& budget, Value key, Value value);
  void Set(std::string key, Value value);
  const Value* Find(Budget& budget, const Value& key) const;  // null if it is missing
  const Value* Find(absl::string_view key) const;
  const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }
  int depth() const { return depth_; }

 private:
  std::vector<std::pair<Value, Value>> entries_;
  absl::flat_hash_map<std::string, size_t> texts_;   // indices of string keys
  absl::flat_hash_map<std::string, size_t> others_;  // indices of other keys, by their KeyText
  int depth_ = 1;
};

class Value {
 public:
  enum class Kind { kUndefined, kNone, kBool, kInt, kFloat, kText, kSequence, kDict, kObject };

  Value() : value_(None{}) {}
  static Value Undefined(std::string why) {
    return Value(Absent{std::make_shared<const std::string>(std::move(why))});
  }
  static Value Bool(bool value) { return Value(value); }
  static Value Int(int64_t value) { return Value(value); }
  static Value Float(double value) { return Value(value); }
  static Value Text(std::string value) {
    return Value(std::make_shared<const Letters>(Letters{std::move(value), false}));
  }
  static Value Markup(std::string value) {
    return Value(std::make_shared<const Letters>(Letters{std::move(value), true}));
  }  // text joined to markup by + is HTML-escaped
  static Value List(std::vector<Value> items, Sequence::Kind kind = Sequence::Kind::kList);
  static Value Of(Dict dict) { return Value(std::make_shared<const Dict>(std::move(dict))); }
  static Value Of(Object* object) { return Value(object); }
  static Value Of(const base::OrderedJson& json,
                  int64_t most_depth);  // malformed UTF-8 becomes U+FFFD

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool is(Kind wanted) const { return kind() == wanted; }
  bool is_undefined() const { return is(Kind::kUndefined); }
  bool is_none() const { return is(Kind::kNone); }
  bool is_text() const { return is(Kind::kText); }
  bool is_markup() const {
    return is_text() && std::get<std::shared_ptr<const Letters>>(value_)->markup;
  }
  bool is_number() const { return is(Kind::kBool) || is(Kind::kInt) || is(Kind::kFloat); }
  bool is_integer() const {
    return is(Kind::kBool) || is(Kind::kInt);
  }  // as in Python, bool is an integer
  bool is(Sequence::Kind wanted) const { return is(Kind::kSequence) && sequence().kind == wanted; }

  // Each accessor requires its kind; integer() also accepts bool, number() all three number kinds.
  const std::string& why() const { return *std::get<Absent>(value_).why; }
  const std::string& text() const { return std::get<std::shared_ptr<const Letters>>(value_)->text; }
  const Sequence& sequence() const { return *std::get<std::shared_ptr<const Sequence>>(value_); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(value_); }
  Object& object() const { return *std::get<Object*>(value_); }
  int64_t integer() const {
    return is(Kind::kBool) ? std::get<bool>(value_) : std::get<int64_t>(value_);
  }
  double number() const {
    return is(Kind::kFloat) ? std::get<double>(value_) : static_cast<double>(integer());
  }

  bool Truth() const;            // bool(value)
  std::string TypeName() const;  // "str", "dict", ...: type(value).__name__
  int depth() const;
  // Python's `is`; numbers and strings are compared by value
  bool SameObject(const Value& other) const;

 private:
  struct Absent {
    std::shared_ptr<const std::string> why;
  };
  struct None {};
  struct Letters {
    std::string text;
    bool markup;
  };
  using Any = std::variant<Absent, None, bool, int64_t, double, std::shared_ptr<const Letters>,
                           std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, Object*>;
  template <typename T>
  explicit Value(T value) : value_(std::move(value)) {}

  Any value_;
};

inline bool TruthOf(const std::optional<Value>& value) {
  return value.has_value() && value->Truth();
}

// The values of a call's parameters, in order; nullopt for missing arguments.
using Bound = std::vector<std::optional<Value>>;

// The arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // Binds the arguments to parameters. Superfluous, unknown or repeated arguments are an Error that
  // names `callee`.
  Bound Bind(absl::string_view callee, const std::vector<absl::string_view>& parameters) const;
};

struct Machine;

// An opaque value: function, macro, namespace or loop.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string TypeName() const = 0;
  virtual std::string Text() const { return "<" + TypeName() + " object>"; }
  virtual std::optional<Value> Attribute(absl::string_view) { return std::nullopt; }
  virtual bool IsCallable() const { return false; }
  virtual Value Call(Machine& machine, const Arguments& arguments);
};

// The state of a rendering: its budget, the objects that it created, its time and its current line.
struct Machine {
  explicit Machine(const Limits& limits) : budget(limits) {}

  template <typename T, typename... Parts>
  T* Make(Parts&&... parts) {
    budget.Make(sizeof(T) + 64);
    auto made = std::make_unique<T>(std::forward<Parts>(parts)...);
    T* object = made.get();
    objects.push_back(std::move(made));
    return object;
  }

  // Make values and charge for their bytes.
  Value Text(std::string text) {
    budget.Make(static_cast<int64_t>(text.size()) + 32);
    return Value::Text(std::move(text));
  }
  Value TextLike(const Value& like, std::string text) {  // markup if `like` is markup
    budget.Make(static_cast<int64_t>(text.size()) + 32);
    return like.is_markup() ? Value::Markup(std::move(text)) : Value::Text(std::move(text));
  }
  Value List(std::vector<Value> items, Sequence::Kind kind = Sequence::Kind::kList);
  Value Of(Dict dict);

  Budget budget;
  std::vector<std::unique_ptr<Object>> objects;
  std::optional<int64_t> now;  // seconds since 1970; nullopt: the clock
  int line = 0;
};

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_VALUE_H_
