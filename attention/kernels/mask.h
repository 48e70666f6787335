#ifndef MOONRING_ATTENTION_KERNELS_MASK_H_
#define MOONRING_ATTENTION_KERNELS_MASK_H_

// Which tokens may attend to which beyond the causal rule: custom masks, described per document.
//
//   prefix    all tokens of a document attend to its first p tokens, which thus attend to each
//             other in both directions (prefix LM: Raffel et al., arXiv:1910.10683); under a
//             sliding window, tokens beyond the window also attend to this prefix, as with
//             attention sinks (arXiv:2309.17453)
//   parent    a document continues after the first n tokens of another document, its parent: it
//             attends to these as if they were its own preceding tokens. Several documents may have
//             one parent, for example answers that share a prompt. A parent may itself have a
//             parent; then the document also attends to the tokens of its grandparent that precede
//             the parent
//   window    replaces the model's sliding window; 0: no window
//
// Formally: a document's ancestors are its parent, the parent's parent, and so on. Number the
// tokens that a document shares with its ancestors (those of the outermost ancestor first), and
// then its own tokens, 0, 1, 2, ... This number is a token's index (`place` in the code). The token
// at index x attends to the token at index y if y <= x and, under a window W, x - W < y; or if the
// latter token is in the prefix of its document.
//
// Lengths, targets and positions do not depend on the mask. A target inside a prefix is visible to
// the token that predicts it: data should not have targets there. The positions (for the rotary
// embedding) of a document with a parent usually begin at n, the number of shared tokens. Positions
// are part of the data and are not changed here.
//
// A mask is for one micro-batch and the same on all ranks. tile_plan.h makes tiles from it.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace moonring::attention {

struct DocumentMask {
  int64_t prefix = 0;
  int64_t parent = -1;        // index of a document of the micro-batch, earlier or later; -1: none
  int64_t parent_tokens = 0;  // how many of the parent's first tokens are shared
};

class Mask {
 public:
  // `documents`: one entry per document, or empty where the mask only replaces the window.
  // INVALID_ARGUMENT for another number of entries, a prefix or parent_tokens longer than the
  // document, a parent that does not exist, a cycle of parents, or a negative window.
  static absl::StatusOr<std::shared_ptr<const Mask>> Create(std::vector<int64_t> lengths,
                                                            std::vector<DocumentMask> documents,
                                                            std::optional<int64_t> window = {});

  // The first `tokens` tokens of `document`, an ancestor of a document, which attends to them as
  // tokens before its own. `place` is the place (see above) of the first of them.
  struct Before {
    int64_t document = 0, tokens = 0, place = 0;
  };
  absl::Span<const Before> before(int64_t d) const { return before_[d]; }
  // The place of a document's first token: the number of tokens that precede it.
  int64_t place(int64_t d) const {
    return before_[d].empty() ? 0 : before_[d].back().place + before_[d].back().tokens;
  }
  int64_t prefix(int64_t d) const { return documents_[d].prefix; }
  // The family of document d: the index of its outermost ancestor, or d itself without a parent.
  // Documents that attend to common keys are in one family.
  int64_t family(int64_t d) const { return before_[d].empty() ? d : before_[d].front().document; }

  const std::vector<int64_t>& lengths() const { return lengths_; }
  // The effective window of a layer: the mask's window if it has one, else `own`, the layer's
  // configured window.
  int64_t WindowOf(int64_t own) const { return window_.value_or(own); }
  // Whether all documents are causal and independent of each other.
  bool is_plain() const { return is_plain_; }

  // The number of query-key pairs of the queries [begin, end) of document d; windows are ignored.
  double Area(int64_t d, int64_t begin, int64_t end) const;

  // A CRC-32 of the mask, continued from the checksum `before`. Ranks compare checksums to verify
  // that they have the same mask.
  uint32_t Checksum(uint32_t before = 0) const;

 private:
  Mask(std::vector<int64_t> lengths, std::vector<DocumentMask> documents,
       std::optional<int64_t> window, std::vector<std::vector<Before>> before);

  std::vector<int64_t> lengths_;
  std::vector<DocumentMask> documents_;
  std::optional<int64_t> window_;
  std::vector<std::vector<Before>> before_;  // by document
  bool is_plain_ = true;
};

// The masks of a model's layers: with n masks, layer l uses mask l mod n. Empty: every layer is
// causal.
using LayerMasks = std::vector<std::shared_ptr<const Mask>>;

// The mask of a layer; null where there are no masks, or where the mask is plain (Mask::is_plain).
const Mask* MaskOf(const LayerMasks& masks, int64_t layer);
int64_t WindowOf(const LayerMasks& masks, int64_t layer, int64_t own);

// INVALID_ARGUMENT where a mask is null or is for documents of other lengths.
absl::Status Validate(const LayerMasks& masks, absl::Span<const int64_t> lengths);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_MASK_H_
