#ifndef MOONRING_COMM_SEQUENCE_H_
#define MOONRING_COMM_SEQUENCE_H_

// A packed stream of documents: what one micro-batch is, before it is cut over ranks.
//
// Three things, held apart and never inferred from one another: document lengths (who sees whom),
// positions (rotary embedding only), targets (what each token predicts). There is no batch
// dimension and no padding.
//
//   lengths    L_0 .. L_{n-1}, each >= 0, summing to T
//   ids_T      int64 [T] on the host
//   positions_T, targets_T  int64 [T]; targets_T[t] is the id that follows t in its document, or
//                           kIgnore
//   identity_T  int64 [T] or undefined: a number for each token that does not depend on where it is
//               packed, by which counter-based randomness (dropout, noise) is keyed; different for
//               different tokens of one step
//   parents     of each document the one where whose first tokens end it goes on: it sees them as
//               tokens before its own; or none for all documents
//
// Shared prefixes. Documents that begin alike, as answers to one prompt, may have that beginning as
// a document of its own, their parent, so that it is computed once. The parent leaves out the
// prompt's last token, with which each of them begins: what that token predicts is theirs, and the
// parent predicts nothing. So documents that are parents are no examples of their own, but parts of
// others; positions of the others usually go on from the parent's, and as ever are data.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace moonring::comm {

// The label that takes no part in a loss, as in PyTorch's cross entropy.
inline constexpr int64_t kIgnore = -100;

struct Parent {
  int64_t document = -1;  // of the stream, before or behind; -1: none
  int64_t tokens = 0;     // how many of its first tokens
  friend bool operator==(const Parent&, const Parent&) = default;
};

struct Sequence {
  std::vector<int64_t> lengths;
  at::Tensor ids_T;
  at::Tensor positions_T;
  at::Tensor targets_T;
  at::Tensor identity_T;
  std::vector<Parent> parents;  // one a document, or empty

  bool shares_prefixes() const { return !parents.empty(); }
};

// targets[t] = labels[t + 1] inside a document, kIgnore at each document's end. The whole stream's,
// before any cut.
at::Tensor ShiftLabels(const at::Tensor& labels_T, absl::Span<const int64_t> lengths);

// 0, 1, .. L_d - 1 for each document: the usual positions.
at::Tensor PositionsInDocuments(absl::Span<const int64_t> lengths);

// For each token the length of its document, int64 [T], with what stands before it of its parents.
// Positions have no part in it: those of a document may restart.
at::Tensor LengthsOfTokens(const Sequence& sequence);

// The documents that are nobody's parent, ascending.
std::vector<int64_t> OwnDocuments(const Sequence& sequence);

// For each document how many of its first tokens are not predicted by one that predicts: its tokens
// up to the first that predicts, that one among them; all of them where none does. No target is
// hidden in so many tokens, if they see each other.
std::vector<int64_t> PromptLengths(const Sequence& sequence);

// A checksum (CRC-32) of lengths, ids, positions, targets and parents, each with how many there
// are, going on from that of other sequences: by which ranks tell whether they hold the same.
// `labels`: how many labels count. They are counted before any shift, so the targets do not tell.
uint32_t Checksum(const Sequence& sequence, uint32_t before = 0, int64_t labels = 0);

// INVALID_ARGUMENT where a length is negative, or a tensor is not int64 [sum of lengths] on the
// host (identity may be undefined); where parents are not as many as documents, one is not there or
// has fewer tokens, they go in a circle, or one predicts something.
absl::Status Validate(const Sequence& sequence);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_SEQUENCE_H_
