// A running `for` loop, which the loop's body can read as the object `loop`. One item is read ahead
// only if the body uses `last` or `nextitem`, and all items only if it uses the loop's length,
// because the loop's condition may depend on what the body did before.
#ifndef MOONRING_DATA_TEXT_JINJA_LOOP_H_
#define MOONRING_DATA_TEXT_JINJA_LOOP_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/text/jinja/value.h"

namespace moonring::data::jinja {

class Loop : public Object {
 public:
  using Condition = std::function<bool(const Value&)>;

  // `condition` may be empty.
  Loop(Machine& machine, std::vector<Value> items, Condition condition);

  std::optional<Value> Next();
  void End();  // releases the items

  std::string TypeName() const override { return "LoopContext"; }
  std::optional<Value> Attribute(absl::string_view name) override;

 private:
  std::optional<Value> Draw();  // next item that satisfies the condition
  bool Peek();
  int64_t Length();

  Machine& machine_;
  std::vector<Value> items_;
  Condition condition_;
  size_t drawn_ = 0;
  int64_t index_ = -1;
  std::optional<int64_t> length_;
  std::optional<Value> previous_, current_, next_;
  std::optional<std::vector<Value>> last_changed_;
};

}  // namespace moonring::data::jinja

#endif  // MOONRING_DATA_TEXT_JINJA_LOOP_H_
