// Python's methods of strings, lists, tuples, dictionaries and numbers, as far as Transformers'
// immutable sandbox allows a template to call them.
#ifndef MOONRING_DATA_TEXT_JINJA_METHODS_H_
#define MOONRING_DATA_TEXT_JINJA_METHODS_H_

#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "data/text/jinja/value.h"

namespace moonring::data::jinja {

// HasMethod: whether Python's type has the method. IsUnsafe: whether the sandbox rejects it because
// it would change the value.
bool HasMethod(const Value& value, absl::string_view name);
bool IsUnsafe(const Value& value, absl::string_view name);

// Calls a safe method that the value has. UNIMPLEMENTED if it is not available here.
Value CallMethod(Machine& machine, const Value& value, absl::string_view name,
                 const Arguments& arguments);

// A bound method: one that was looked up but not called yet.
class Method : public Object {
 public:
  Method(Value value, std::string name) : value_(std::move(value)), name_(std::move(name)) {}
  std::string TypeName() const override { return "builtin_function_or_method"; }
  std::string Text() const override {
    return "<built-in method " + name_ + " of " + value_.TypeName() + " object>";
  }
  bool IsCallable() const override { return true; }
  Value Call(Machine& machine, const Arguments& arguments) override {
    return CallMethod(machine, value_, name_, arguments);
  }

 private:
  const Value value_;
  const std::string name_;
};

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_METHODS_H_
