#ifndef MOONRING_MODEL_BLOCKS_BLOCK_MAPS_H_
#define MOONRING_MODEL_BLOCKS_BLOCK_MAPS_H_

// The linear maps and norms of a block, as one run of the block uses them.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "model/blocks/experts.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"
#include "model/config/block_weights.h"

namespace moonring::model {

// The maps of a block, indexed as in block_weights.h. A norm is stored as a map's weight; a missing
// weight is undefined.
class BlockMaps {
 public:
  // `weights` by index, without adapters; `sums` accumulate their gradients, or are empty.
  explicit BlockMaps(absl::Span<const at::Tensor> weights, absl::Span<const WeightSum> sums = {});

  bool Has(int place) const { return maps_[place].weight_OI.defined(); }
  const at::Tensor& Norm(int place) const { return maps_[place].weight_OI; }
  const Projection& Map(int place) const { return maps_[place]; }
  Projection& Map(int place) { return maps_[place]; }
  ExpertMaps Experts(const ExpertRule& rule) const;

  // Only the weights that are applied after the mixer.
  BlockMaps AfterMixer() const;
  // The maps for a tile of the rows: dropout masks depend on the identities of the tile's tokens.
  BlockMaps OfRows(int64_t begin, int64_t count) const;
  // All defined tensors in a fixed order; and the same maps built from other tensors in that order.
  std::vector<at::Tensor> Tensors() const;
  BlockMaps Of(absl::Span<const at::Tensor> tensors) const;

 private:
  template <class Maps, class F>
  static void ForEachTensor(Maps& maps, const F& fn);

  std::vector<Projection> maps_;
};

// The dtype in which the block uses a weight: the wide one for norms and for parameters that are
// not matrices, otherwise the matmul dtype.
at::ScalarType WeightDtype(int place, at::ScalarType matmul_dtype);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_BLOCK_MAPS_H_
