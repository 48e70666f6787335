#include "comm/autograd_collectives.h"

#include <utility>

#include "comm/autograd/custom_function.h"
#include "comm/status/torch_status.h"

namespace moonring::comm {

at::Tensor AllToAllRows(const at::Tensor& rows, std::vector<int64_t> send_rows,
                        std::vector<int64_t> receive_rows, std::shared_ptr<Communicator> group) {
  if (group->size() == 1) return rows;
  return ApplyToOne(
      {.name = "AllToAllRows",
       .forward = [&](Tensors*) -> Tensors {
         return {ValueOrThrow(group->AllToAll(rows, send_rows, receive_rows))};
       },
       .backward = [send_rows, receive_rows, group](BackwardCall& call) -> Tensors {
         return {ValueOrThrow(group->AllToAll(call.gradients[0], receive_rows, send_rows))};
       }},
      {rows});
}

at::Tensor AllReduceSumIdentityBackward(const at::Tensor& t, std::shared_ptr<Communicator> group) {
  return ApplyToOne({.name = "AllReduceSumIdentityBackward",
                     .forward = [&](Tensors*) -> Tensors {
                       at::Tensor sum = t.detach().clone(at::MemoryFormat::Contiguous);
                       ThrowIfError(group->AllReduceSum(sum));
                       return {sum};
                     },
                     .backward = [](BackwardCall& call) -> Tensors { return {call.gradients[0]}; }},
                    {t});
}

}  // namespace moonring::comm
