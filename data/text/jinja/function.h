// Functions that a template can call, and the namespace objects that one of them creates.
#ifndef MOONRING_DATA_TEXT_JINJA_FUNCTION_H_
#define MOONRING_DATA_TEXT_JINJA_FUNCTION_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "data/text/jinja/value.h"

namespace moonring::data::jinja {

class Function : public Object {
 public:
  using Body = std::function<Value(Machine&, const Arguments&)>;

  Function(std::string name, Body body) : name_(std::move(name)), body_(std::move(body)) {}
  std::string TypeName() const override { return "function"; }
  std::string Text() const override { return "<function " + name_ + ">"; }
  bool IsCallable() const override { return true; }
  Value Call(Machine& machine, const Arguments& arguments) override {
    return body_(machine, arguments);
  }

 private:
  const std::string name_;
  Body body_;
};

// An object whose attributes `set` can change: {% set ns.name = value %}.
class Namespace : public Object {
 public:
  explicit Namespace(Dict values) : values_(std::move(values)) {}
  std::string TypeName() const override { return "jinja2.utils.Namespace"; }
  std::optional<Value> Attribute(absl::string_view name) override {
    const Value* found = values_.Find(name);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  void Set(const std::string& name, Value value) { values_.Set(name, std::move(value)); }

 private:
  Dict values_;
};

// The global functions of every template: range, dict, namespace, joiner, raise_exception,
// strftime_now. nullopt for any other name.
std::optional<Value> GlobalFunction(Machine& machine, absl::string_view name);

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_FUNCTION_H_
