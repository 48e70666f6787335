#ifndef MOONRING_COMM_AUTOGRAD_COLLECTIVES_H_
#define MOONRING_COMM_AUTOGRAD_COLLECTIVES_H_

// Differentiable collectives. Forward and backward both run on the calling thread (autograd runs
// the backward of host tensors there), so every rank must call them forward and backward in the
// same order. A failed call throws StatusError.
//
// No gradient is scaled: each rank's loss is its share of a sum, and gradients are summed, never
// averaged.

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"

namespace moonring::comm {

// Differentiable Communicator::AllToAll. Its backward is the inverse all-to-all, with the counts
// swapped: it sends the gradient of each received row back to the row's sender. Cost: one AllToAll
// in each direction. If any rank runs the backward, all must. A group of one rank returns `rows`.
at::Tensor AllToAllRows(const at::Tensor& rows, std::vector<int64_t> send_rows,
                        std::vector<int64_t> receive_rows, std::shared_ptr<Communicator> group);

// Communicator::AllReduceSum into a new tensor, with the identity as its backward (no
// communication). Correct where every rank then computes the same loss from the sum and that loss
// is counted once per group, as for the log-prob of a sequence: each rank's share of the sum gets
// the gradient of that one loss. No parameter may be used after this sum: in a group of P ranks its
// gradient would be P times too large.
at::Tensor AllReduceSumIdentityBackward(const at::Tensor& t, std::shared_ptr<Communicator> group);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_AUTOGRAD_COLLECTIVES_H_
