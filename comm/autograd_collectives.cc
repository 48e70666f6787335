#include "comm/autograd_collectives.h"

#include <utility>

#include "base/autograd/custom_function.h"
#include "base/status/torch_status.h"

namespace moonring::comm {

at::Tensor AllToAllRows(const at::Tensor& rows, std::vector<int64_t> send_rows,
                        std::vector<int64_t> receive_rows, std::shared_ptr<Communicator> group) {
  if (group->size() == 1) return rows;
  return base::ApplyToOne(
      {.name = "AllToAllRows",
       .forward = [&](base::Tensors*) -> base::Tensors {
         return {base::ValueOrThrow(group->AllToAll(rows, send_rows, receive_rows))};
       },
       .backward = [send_rows, receive_rows, group](base::BackwardCall& call) -> base::Tensors {
         return {base::ValueOrThrow(group->AllToAll(call.gradients[0], receive_rows, send_rows))};
       }},
      {rows});
}

at::Tensor AllReduceSumIdentityBackward(const at::Tensor& t, std::shared_ptr<Communicator> group) {
  return base::ApplyToOne(
      {.name = "AllReduceSumIdentityBackward",
       .forward = [&](base::Tensors*) -> base::Tensors {
         at::Tensor sum = t.detach().clone(at::MemoryFormat::Contiguous);
         base::ThrowIfError(group->AllReduceSum(sum));
         return {sum};
       },
       .backward = [](base::BackwardCall& call) -> base::Tensors { return {call.gradients[0]}; }},
      {t});
}

}  // namespace moonring::comm
