#ifndef MOONRING_OBJECTIVES_DOCUMENTS_H_
#define MOONRING_OBJECTIVES_DOCUMENTS_H_

// Sums of token values over documents: the basis of sequence-level objectives (preferences, KTO).
//
//   sum_d = sum over the tokens t of document d, on any rank of the sp group, of values_t
//
// The backward of the sum over ranks is the identity. Every rank of the group computes the same
// loss from the sums, and back-propagates it to its own tokens only, so the loss counts once. No
// parameter may be used after this sum.

#include <memory>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/sequence.h"

namespace moonring::objectives {

// values_T [T_local, ...]: a number or a vector per token of this rank, in the layout's order, of
// any floating type. Returns fp64 [documents, ...], the same on each rank of the group.
// Differentiable. Collective: a rank without tokens must call it too. Cost: one all-reduce of 8
// bytes per document and number, in the forward only. Throws on a wrong number of values or of
// ranks; StatusError where the group fails.
at::Tensor DocumentSums(const at::Tensor& values_T, const comm::Layout& layout,
                        const std::shared_ptr<comm::Communicator>& group);

// The number of predictions (tokens that have a target) in each document of the stream: fp64
// [documents] on the host. Computed from the whole stream without communication.
at::Tensor DocumentTargets(const comm::Sequence& sequence);

// Token weights that reduce the effect of the length difference between a pair's two answers
// (LD-DPO: Liu et al. 2024, arXiv 2409.06411). Documents are chosen, rejected, chosen, rejected,
// ... Let n be the smaller number of predictions of a pair's two documents:
//   w_t = 1 for the first n predictions of each, alpha for later ones; 1 where nothing is predicted
// Returns fp64 [T] for the whole stream, on the host, to be cut like the targets. Documents that
// are shared prefixes (comm/sequence.h) are not members of pairs; their tokens have the weight 1.
// Throws on an odd number of documents, and on alpha outside [0, 1].
at::Tensor Desensitized(const comm::Sequence& sequence, double alpha);

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_DOCUMENTS_H_
