#ifndef MOONRING_COMM_AUTOGRAD_COLLECTIVES_H_
#define MOONRING_COMM_AUTOGRAD_COLLECTIVES_H_

// Differentiable collectives. Forward and backward both run on the calling thread (autograd runs
// the backward of host tensors there), so every rank must call them forward and backward in the
// same order. A failed call throws StatusError.
//
// No gradient is scaled: each rank's loss is its share of a sum, and gradients are summed, never
// averaged. A value inside a loss is of one of two kinds:
//
//   sharded      made from this rank's tokens or rows. The loss is the sum of what each rank makes
//                of it, so its gradient on a rank is that of the rank's own share
//   replicated   equal on every rank of the group, and used in the same way on each, so that the
//                loss made of it is counted once. Its gradient is that of the whole loss, on every
//                rank
//
//   collective                    takes -> gives            backward
//   AllReduceSumIdentityBackward  sharded -> replicated     identity
//   Spread                        replicated -> sharded     sum over ranks (all-reduce)
//   GatherRows                    sharded -> sharded        reduce-scatter
//   ReduceScatterRows             sharded -> sharded        all-gather
//   AllToAllRows                  sharded -> sharded        the inverse all-to-all
//
// loss_kinds.h finds a value of one kind that is used as one of the other.

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"

namespace torch::autograd {
struct Node;
}  // namespace torch::autograd

namespace moonring::comm {

enum class Kind { kSharded, kReplicated };
struct KindChange {
  Kind takes, gives;
};
// The kinds of a collective's node; null for a node of anything else, whose inputs are of the same
// kind as its outputs.
const KindChange* KindChangeOf(const torch::autograd::Node& node);

// Communicator::AllReduceSum into a new tensor, with the identity as its backward (no
// communication). Correct where every rank then computes the same loss from the sum and that loss
// is counted once per group, as for the log-prob of a sequence: each rank's share of the sum gets
// the gradient of that one loss. No parameter may be used after this sum: in a group of P ranks its
// gradient would be P times too large.
at::Tensor AllReduceSumIdentityBackward(const at::Tensor& t, std::shared_ptr<Communicator> group);

// The dual of that sum: a copy of `t`, which is equal on every rank, for a use that differs between
// ranks. Its backward sums the gradients of all ranks. Cost: nothing forward, one AllReduceSum
// backward.
at::Tensor Spread(const at::Tensor& t, std::shared_ptr<Communicator> group);

// Communicator::AllGather: the rows of all ranks, in the order of ranks. Each rank may use them
// differently: the backward sums the gradients over ranks and returns to each rank those of its own
// rows. Cost: one AllGather forward, one ReduceScatterSum backward. A group of one rank returns
// `rows`.
at::Tensor GatherRows(const at::Tensor& rows, std::vector<int64_t> rows_of_rank,
                      std::shared_ptr<Communicator> group);

// Communicator::ReduceScatterSum: this rank's rows of the sum of every rank's `rows`. Cost: one
// ReduceScatterSum forward, one AllGather backward. A group of one rank returns `rows`.
at::Tensor ReduceScatterRows(const at::Tensor& rows, std::vector<int64_t> rows_of_rank,
                             std::shared_ptr<Communicator> group);

// Differentiable Communicator::AllToAll. Its backward is the inverse all-to-all, with the counts
// swapped: it sends the gradient of each received row back to the row's sender. Cost: one AllToAll
// in each direction. If any rank runs the backward, all must. A group of one rank returns `rows`.
at::Tensor AllToAllRows(const at::Tensor& rows, std::vector<int64_t> send_rows,
                        std::vector<int64_t> receive_rows, std::shared_ptr<Communicator> group);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_AUTOGRAD_COLLECTIVES_H_
