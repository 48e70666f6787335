#ifndef MOONRING_ATTENTION_MASK_H_
#define MOONRING_ATTENTION_MASK_H_

// Who sees whom beyond the causal rule: masks of one's own, as data by document.
//
//   prefix    the first p tokens of a document are seen by all of its tokens, so that they see each
//             other in both directions (prefix-LM: Raffel et al., arXiv:1910.10683); under a window
//             by far ones too, as attention sinks are (arXiv:2309.17453)
//   parent    a document goes on where the first n tokens of another one, its parent, end: it sees
//             these as tokens before its own. Several may have one parent: answers that share a
//             prompt. A parent may have a parent; then the document sees what those tokens see
//   window    in place of the model's own; 0: none
//
// In one rule: the tokens that stand before a document, of its ancestors from the first on, and its
// own are a line of places. The token at place x sees that at place y where y <= x and, under a
// window W, x - W < y; and wherever y is of its document's prefix (that of token y's document).
//
// Lengths, targets and positions are what they are without a mask. A target inside a prefix is seen
// by the token that predicts it: data should have none there. A document with a parent usually has
// positions that begin at n, where the shared tokens end: positions are data, and none are moved
// here.
//
// A mask is of one micro-batch and the same on all ranks. Which tiles it makes is in tile_plan.h.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace moonring::attention {

struct DocumentMask {
  int64_t prefix = 0;
  int64_t parent = -1;        // a document of the micro-batch, before or behind; -1: none
  int64_t parent_tokens = 0;  // how many of its first tokens
};

class Mask {
 public:
  // `documents`: one each, or none at all where only the window differs. INVALID_ARGUMENT for
  // another number of them, a prefix or parent's tokens beyond the document, a parent that is not
  // there, parents in a circle, a negative window.
  static absl::StatusOr<std::shared_ptr<const Mask>> Create(std::vector<int64_t> lengths,
                                                            std::vector<DocumentMask> documents,
                                                            std::optional<int64_t> window = {});

  // The first tokens of a document that stand before another one's, from `place` on.
  struct Before {
    int64_t document = 0, tokens = 0, place = 0;
  };
  absl::Span<const Before> before(int64_t d) const { return before_[d]; }
  // The place of a document's first token: how many stand before it.
  int64_t place(int64_t d) const {
    return before_[d].empty() ? 0 : before_[d].back().place + before_[d].back().tokens;
  }
  int64_t prefix(int64_t d) const { return documents_[d].prefix; }
  // The first of its ancestors, itself where it has none: documents that share keys share it.
  int64_t family(int64_t d) const { return before_[d].empty() ? d : before_[d].front().document; }

  const std::vector<int64_t>& lengths() const { return lengths_; }
  // That of a layer whose own is `own`.
  int64_t WindowOf(int64_t own) const { return window_.value_or(own); }
  // Whether all documents are causal and see themselves alone.
  bool is_plain() const { return is_plain_; }

  // Query-key pairs of the tokens [begin, end) of a document, without a window.
  double Area(int64_t d, int64_t begin, int64_t end) const;

  // CRC-32, going on from another: by which ranks tell whether they hold the same.
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

// Masks by layer: layer l takes number l mod n of n. None: every layer is causal.
using LayerMasks = std::vector<std::shared_ptr<const Mask>>;

// Null where the layer's documents are plain or there are no masks.
const Mask* MaskOf(const LayerMasks& masks, int64_t layer);
int64_t WindowOf(const LayerMasks& masks, int64_t layer, int64_t own);

// INVALID_ARGUMENT where one is null or of documents of other lengths.
absl::Status Validate(const LayerMasks& masks, absl::Span<const int64_t> lengths);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_MASK_H_
