#include "data/text/jinja/loop.h"

#include <utility>

#include "data/text/jinja/function.h"
#include "data/text/jinja/operators.h"

namespace moonring::data::jinja {

Loop::Loop(Machine& machine, std::vector<Value> items, Condition condition)
    : machine_(machine), items_(std::move(items)), condition_(std::move(condition)) {}

std::optional<Value> Loop::Draw() {
  while (drawn_ < items_.size()) {
    const Value& item = items_[drawn_++];
    if (!condition_ || condition_(item)) return item;
  }
  return std::nullopt;
}

bool Loop::Peek() {
  if (!next_.has_value()) next_ = Draw();
  return next_.has_value();
}

std::optional<Value> Loop::Next() {
  std::optional<Value> item = next_.has_value() ? std::exchange(next_, std::nullopt) : Draw();
  if (!item.has_value()) return std::nullopt;
  ++index_;
  previous_ = std::exchange(current_, item);
  return item;
}

void Loop::End() {
  items_.clear();
  items_.shrink_to_fit();
  condition_ = nullptr;
  drawn_ = 0;
}

int64_t Loop::Length() {
  if (!length_.has_value()) {
    std::vector<Value> rest;
    while (std::optional<Value> item = Draw()) rest.push_back(*std::move(item));
    length_ = index_ + 1 + (next_.has_value() ? 1 : 0) + static_cast<int64_t>(rest.size());
    items_ = std::move(rest);
    condition_ = nullptr;
    drawn_ = 0;
  }
  return *length_;
}

std::optional<Value> Loop::Attribute(absl::string_view name) {
  if (name == "index") return Value::Int(index_ + 1);
  if (name == "index0") return Value::Int(index_);
  if (name == "first") return Value::Bool(index_ == 0);
  if (name == "last") return Value::Bool(!Peek());
  if (name == "length") return Value::Int(Length());
  if (name == "revindex") return Value::Int(Length() - index_);
  if (name == "revindex0") return Value::Int(Length() - index_ - 1);
  if (name == "depth") return Value::Int(1);  // recursive loops are not supported
  if (name == "depth0") return Value::Int(0);
  if (name == "previtem") return previous_.value_or(Value::Undefined("there is no previous item"));
  if (name == "nextitem") return Peek() ? *next_ : Value::Undefined("there is no next item");
  if (name == "cycle") {
    return Value::Of(machine_.Make<Function>("cycle", [this](Machine&, const Arguments& arguments) {
      if (arguments.positional.empty()) Fail("no items for cycling given");
      return arguments.positional[static_cast<size_t>(index_) % arguments.positional.size()];
    }));
  }
  if (name == "changed") {
    return Value::Of(
        machine_.Make<Function>("changed", [this](Machine& machine, const Arguments& arguments) {
          const bool same =
              last_changed_.has_value() &&
              Equal(machine.budget, Value::List(*last_changed_), Value::List(arguments.positional));
          last_changed_ = arguments.positional;
          return Value::Bool(!same);
        }));
  }
  return std::nullopt;
}

}  // namespace moonring::data::jinja
