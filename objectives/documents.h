#ifndef MOONRING_OBJECTIVES_DOCUMENTS_H_
#define MOONRING_OBJECTIVES_DOCUMENTS_H_

// From tokens to documents: what a sequence-level objective (preferences, KTO) is made from.
//
//   sum_d = sum over the tokens t of document d, on whatever rank of the sp group, of values_t
//
// The sum over ranks has the identity as its backward: every rank of the group then makes the same
// loss, which counts once, and its share of the tokens gets that loss's gradient. No parameter may
// be used after it.

#include <memory>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/sequence.h"

namespace moonring::objectives {

// values_T [T_local, ...]: a number or a vector a token of this rank, in the layout's order, any
// floating type -> fp64 [documents, ...], the same on each rank of the group. Differentiable; a
// rank without tokens takes part. Every rank of the group must call it. Cost: one all-reduce of 8
// bytes a document and number, forward alone. Throws on a wrong number of values or of ranks;
// StatusError where the group fails.
at::Tensor DocumentSums(const at::Tensor& values_T, const comm::Layout& layout,
                        const std::shared_ptr<comm::Communicator>& group);

// How many predictions each document of the stream has: fp64 [documents] on the host. From the
// whole stream; nothing is communicated.
at::Tensor DocumentTargets(const comm::Sequence& sequence);

// Weights of tokens that lessen the part by which the longer of a pair's two answers is longer
// (LD-DPO: Liu et al. 2024, arXiv 2409.06411). Documents are chosen, rejected, chosen, rejected,
// ...; with n = the lesser number of predictions of a pair's two,
//   w_t = 1 for the first n predictions of each, alpha for those after; 1 where nothing is
//       predicted
// fp64 [T] of the whole stream, on the host: cut like the targets. Prefixes that documents share
// are not counted, and have 1. Throws on an odd number of documents, and on alpha outside [0, 1].
at::Tensor Desensitized(const comm::Sequence& sequence, double alpha);

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_DOCUMENTS_H_
