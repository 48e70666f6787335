#ifndef MOONRING_MODEL_BLOCKS_BLOCK_MAPS_H_
#define MOONRING_MODEL_BLOCKS_BLOCK_MAPS_H_

// The linear maps and norms of a block at their places (block_weights.h), as one run of it has
// them.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "model/blocks/experts.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"
#include "model/config/block_weights.h"

namespace moonring::model {

// The maps of a block by place (block_weights.h). A norm is a map's weight; one that is not there
// is undefined.
class BlockMaps {
 public:
  // Weights at their places, without adapters; where their gradients are added up, or nothing.
  explicit BlockMaps(absl::Span<const at::Tensor> weights, absl::Span<const WeightSum> sums = {});

  bool Has(int place) const { return maps_[place].weight_OI.defined(); }
  const at::Tensor& Norm(int place) const { return maps_[place].weight_OI; }
  const Projection& Map(int place) const { return maps_[place]; }
  Projection& Map(int place) { return maps_[place]; }
  ExpertMaps Experts(const ExpertRule& rule) const;

  // Those of what follows the mixer, alone.
  BlockMaps AfterMixer() const;
  // For a tile of the rows: what an adapter drops goes by whose row it is.
  BlockMaps OfRows(int64_t begin, int64_t count) const;
  // Every tensor that is there, in an order of its own; and the same maps of others in that order.
  std::vector<at::Tensor> Tensors() const;
  BlockMaps Of(absl::Span<const at::Tensor> tensors) const;

 private:
  template <class Maps, class F>
  static void ForEachTensor(Maps& maps, const F& fn);

  std::vector<Projection> maps_;
};

// The dtype in which the block takes a weight: norms and a block's own numbers in the wide
// one, the rest in the matmul's.
at::ScalarType WeightDtype(int place, at::ScalarType matmul_dtype);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_BLOCK_MAPS_H_
