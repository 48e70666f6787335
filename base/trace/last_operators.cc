#include "base/trace/last_operators.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/util/StringUtil.h>

#include "absl/strings/str_cat.h"

namespace moonring::base {
namespace {

// A ring buffer of the last operators, in the order of their calls; a new one overwrites the
// oldest.
class OperatorRing {
 public:
  void Resize(size_t size) {
    const std::lock_guard<std::mutex> lock(mutex_);
    operators_.assign(size, "");
    called_ = 0;
  }

  void Add(std::string text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!operators_.empty()) operators_[called_++ % operators_.size()] = std::move(text);
  }

  std::vector<std::string> InOrder() {
    const std::lock_guard<std::mutex> lock(mutex_);
    const size_t kept = std::min(called_, operators_.size());
    std::vector<std::string> texts;
    for (size_t i = called_ - kept; i < called_; ++i)
      texts.push_back(operators_[i % operators_.size()]);
    return texts;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> operators_;
  size_t called_ = 0;
};

OperatorRing& ring() {
  static auto* const ring = new OperatorRing;
  return *ring;
}

std::string TextOf(const at::RecordFunction& call) {
  std::string text = call.name();
  for (const c10::IValue& input : call.inputs()) {
    if (input.isTensor() && input.toTensor().defined())
      absl::StrAppend(&text, " ", c10::str(input.toTensor().sizes()));
  }
  return text;
}

}  // namespace

void KeepLastOperators(int count) {
  ring().Resize(static_cast<size_t>(count));
  static const at::CallbackHandle handle = at::addGlobalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
            ring().Add(TextOf(call));
            return nullptr;
          })
          .needsInputs(true)
          .scopes({at::RecordScope::FUNCTION}));
  (void)handle;
}

std::vector<std::string> LastOperators() { return ring().InOrder(); }

}  // namespace moonring::base
