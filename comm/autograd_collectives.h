#ifndef MOONRING_COMM_AUTOGRAD_COLLECTIVES_H_
#define MOONRING_COMM_AUTOGRAD_COLLECTIVES_H_

// Collectives that autograd goes through. Both ways run on the thread that calls (backward of host
// tensors does), so every rank must go forward and backward through them in the same order. A
// failed call throws StatusError.
//
// Neither scales anything: every rank's loss is its share of a sum, and gradients are summed, never
// averaged.

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"

namespace moonring::comm {

// Communicator::AllToAll. Backward: the gradient of a received row goes back to who sent it, the
// inverse all-to-all with the counts exchanged. Cost: one AllToAll each way. Where any rank goes
// backward through it, all must. A group of one: the rows themselves.
at::Tensor AllToAllRows(const at::Tensor& rows, std::vector<int64_t> send_rows,
                        std::vector<int64_t> receive_rows, std::shared_ptr<Communicator> group);

// Communicator::AllReduceSum into a new tensor. Backward: the identity, without communication.
// Right where every rank then computes the same loss from the sum and that loss counts once a
// group, as a sequence's log-prob does: each rank's share of the sum gets the gradient of that one
// loss. No parameter may be used after it (its gradient would be P times too large).
at::Tensor AllReduceSumIdentityBackward(const at::Tensor& t, std::shared_ptr<Communicator> group);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_AUTOGRAD_COLLECTIVES_H_
