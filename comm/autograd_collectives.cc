#include "comm/autograd_collectives.h"

#include <utility>

#include <torch/csrc/autograd/custom_function.h>

#include "comm/torch_status.h"

namespace moonring::comm {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// What a node can hold of ours.
struct Exchange : torch::CustomClassHolder {
  Exchange(std::vector<int64_t> send, std::vector<int64_t> receive, std::shared_ptr<Communicator> group)
      : send(std::move(send)), receive(std::move(receive)), group(std::move(group)) {}
  std::vector<int64_t> send, receive;
  std::shared_ptr<Communicator> group;
};

class AllToAllFunction : public Function<AllToAllFunction> {
 public:
  static Variable forward(AutogradContext* context, const Variable& rows, const c10::intrusive_ptr<Exchange>& exchange) {
    context->saved_data["exchange"] = c10::IValue::make_capsule(exchange);
    return ValueOrThrow(exchange->group->AllToAll(rows, exchange->send, exchange->receive));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto exchange = c10::static_intrusive_pointer_cast<Exchange>(context->saved_data["exchange"].toCapsule());
    return {ValueOrThrow(exchange->group->AllToAll(gradients[0], exchange->receive, exchange->send)), Variable()};
  }
};

class AllReduceSumFunction : public Function<AllReduceSumFunction> {
 public:
  static Variable forward(AutogradContext*, const Variable& t, std::shared_ptr<Communicator> group) {
    at::Tensor sum = t.detach().clone(at::MemoryFormat::Contiguous);
    ThrowIfError(group->AllReduceSum(sum));
    return sum;
  }

  static variable_list backward(AutogradContext*, variable_list gradients) { return {gradients[0], Variable()}; }
};

}  // namespace

at::Tensor AllToAllRows(const at::Tensor& rows, std::vector<int64_t> send_rows, std::vector<int64_t> receive_rows, std::shared_ptr<Communicator> group) {
  if (group->size() == 1) return rows;
  return AllToAllFunction::apply(rows, c10::make_intrusive<Exchange>(std::move(send_rows), std::move(receive_rows), std::move(group)));
}

at::Tensor AllReduceSumIdentityBackward(const at::Tensor& t, std::shared_ptr<Communicator> group) { return AllReduceSumFunction::apply(t, std::move(group)); }

}  // namespace moonring::comm
