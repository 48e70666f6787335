#ifndef MOONRING_ATTENTION_HOOKS_DOCUMENT_KEYS_H_
#define MOONRING_ATTENTION_HOOKS_DOCUMENT_KEYS_H_

// The keys that a rank's queries attend to, whole on this rank, for attention that is composed of
// operators. A rank gets each document of which it has queries, up to the last key that any of them
// may attend to; the documents' parents (mask.h) come first.
//
// Queries and heads are not moved, so the division of the work is the layout's: in zigzag balanced,
// otherwise the rank with the last tokens of a long document computes the most.
//
// Cost of Gather: one exchange of rows (comm/row_exchange.h), and memory for the keys of whole
// documents. Collective.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/container/flat_hash_map.h"
#include "attention/kernels/mask.h"
#include "attention/kernels/tile.h"
#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/row_exchange.h"

namespace moonring::attention {

// Queries of one document that are consecutive local rows, and their keys.
struct KeyTile {
  int64_t document = 0;
  RowRange queries;              // local rows
  int64_t place = 0;             // of the first query among the document's keys
  RowRange keys;                 // rows of a tensor that Gather returned: places 0 .. N - 1
  std::vector<RowRange> prefix;  // places that every query attends to
};

// bool [M, N]: which keys of the tile a query may attend to, under the layer's window (0: none).
at::Tensor AllowedKeys(const KeyTile& tile, int64_t window, const at::Device& device);

class DocumentKeys {
 public:
  DocumentKeys(std::shared_ptr<const comm::Layout> layout, LayerMasks masks,
               std::shared_ptr<comm::Communicator> group);

  // Returns the rows of the keys: [T_local, ...] -> [N, ...] for each tensor. Differentiable, any
  // number of times.
  std::vector<at::Tensor> Gather(int64_t layer, std::vector<at::Tensor> locals) const;

  // Tiles of all local queries, in their order. A tile has at most `rows` queries, a multiple of
  // 64, and begins at a multiple of 64 tokens of its document.
  std::vector<KeyTile> Tiles(int64_t layer, int64_t rows) const;

  // The window of a layer whose own one is `own`.
  int64_t WindowOf(int64_t layer, int64_t own) const {
    return attention::WindowOf(masks_, layer, own);
  }
  // The most keys that a tile of this rank has.
  int64_t most_keys(int64_t layer) const;

 private:
  // The keys of one document on a rank: [begin, begin + count) of the gathered rows.
  struct Keys {
    int64_t document, begin, count;
  };
  std::vector<comm::Span> SpansFor(const Mask* mask, int rank, std::vector<Keys>* keys) const;
  int64_t LastKey(const Mask* mask, int64_t document, int64_t end) const;
  const comm::RowMap& MapOf(int64_t layer) const;

  std::shared_ptr<const comm::Layout> layout_;
  LayerMasks masks_;
  std::shared_ptr<comm::Communicator> group_;
  mutable absl::flat_hash_map<const Mask*, std::shared_ptr<const comm::RowMap>> maps_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_HOOKS_DOCUMENT_KEYS_H_
