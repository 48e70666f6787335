#ifndef MOONRING_COMM_SEQUENCE_H_
#define MOONRING_COMM_SEQUENCE_H_

// The packed stream of documents of one micro-batch, before it is cut over ranks.
//
// Document lengths (which tokens may attend to which), positions (for the rotary embedding only)
// and targets (what each token predicts) are separate and are never inferred from one another.
// There is no batch dimension and no padding.
//
//   lengths    L_0 .. L_{n-1}, each >= 0, summing to T
//   ids_T      int64 [T] on the host
//   positions_T, targets_T  int64 [T]; targets_T[t] is the id that follows t in its document, or
//                           kIgnore
//   identity_T  int64 [T] or undefined: a number per token that does not depend on where the token
//               is packed; the key for counter-based randomness (dropout, noise); different for
//               different tokens of one step
//   parents     for each document its parent, another document that it continues after the parent's
//               first `tokens` tokens: it attends to these as if they preceded its own tokens;
//               empty if no document has a parent
//
// Shared prefixes. Documents with a common beginning, such as answers to one prompt, may have that
// beginning as a separate document, their parent, so that it is computed once. The parent does not
// include the prompt's last token: each answer begins with it, because that token's prediction
// belongs to the answer, and a parent predicts nothing. So a parent is not an example but a piece
// of other examples. Positions of its children usually continue after the parent's, but are given
// as data like all positions.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace moonring::comm {

// The label that is ignored by the loss, as in PyTorch's cross entropy.
inline constexpr int64_t kIgnore = -100;

struct Parent {
  int64_t document = -1;  // number in the stream, earlier or later; -1: none
  int64_t tokens = 0;     // how many of the parent's first tokens
  friend bool operator==(const Parent&, const Parent&) = default;
};

struct Sequence {
  std::vector<int64_t> lengths;
  at::Tensor ids_T;
  at::Tensor positions_T;
  at::Tensor targets_T;
  at::Tensor identity_T;
  std::vector<Parent> parents;  // one per document, or empty

  bool shares_prefixes() const { return !parents.empty(); }
};

// targets[t] = labels[t + 1] within a document, kIgnore at each document's end. Expects the whole
// stream, before it is cut over ranks.
at::Tensor ShiftLabels(const at::Tensor& labels_T, absl::Span<const int64_t> lengths);

// The usual positions: 0, 1, .. L_d - 1 for each document.
at::Tensor PositionsInDocuments(absl::Span<const int64_t> lengths);

// Returns int64 [T]: for each token the length of its document, including the tokens of parents
// that the document continues after. The result does not depend on positions, which may restart
// within a document.
at::Tensor LengthsOfTokens(const Sequence& sequence);

// The numbers of the documents that are no other document's parent, ascending.
std::vector<int64_t> OwnDocuments(const Sequence& sequence);

// For each document, its number of tokens up to and including the first token with a target; all
// its tokens if none has a target. No token with a target predicts one of these tokens, so even
// bidirectional attention among them does not reveal a target.
std::vector<int64_t> PromptLengths(const Sequence& sequence);

// CRC-32 of lengths, ids, positions, targets, parents and `labels`, each with its size, continuing
// from the checksum `before` of other sequences. Ranks compare it to check that they have the same
// data. `labels`: the number of labels that are not kIgnore before the shift, which cannot be
// derived from the shifted targets.
uint32_t Checksum(const Sequence& sequence, uint32_t before = 0, int64_t labels = 0);

// Returns INVALID_ARGUMENT in these cases: a length is negative; a tensor is not int64 [sum of
// lengths] on the host (identity may be undefined); `parents` is neither empty nor one per
// document; a parent does not exist, has too few tokens, is in a cycle, or has targets.
absl::Status Validate(const Sequence& sequence);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_SEQUENCE_H_
