#ifndef MOONRING_MODEL_BLOCKS_BLOCK_MAPS_H_
#define MOONRING_MODEL_BLOCKS_BLOCK_MAPS_H_

// The linear maps and norms that one execution of a block uses.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "model/blocks/experts.h"
#include "model/blocks/layers.h"
#include "model/blocks/projection.h"
#include "model/config/block_weights.h"

namespace moonring::model {

// The linear maps and norms of a block, indexed by BlockWeight (block_weights.h). A norm is a
// Projection that has only a weight. A weight that the block lacks is an undefined tensor.
class BlockMaps {
 public:
  // `weights` is indexed by BlockWeight; the maps get no adapters. `sums` (empty, or one per
  // weight) accumulate the gradients of the weights.
  explicit BlockMaps(absl::Span<const at::Tensor> weights, absl::Span<const WeightSum> sums = {});

  bool Has(int place) const { return maps_[place].weight_OI.defined(); }
  const at::Tensor& Norm(int place) const { return maps_[place].weight_OI; }
  const Projection& Map(int place) const { return maps_[place]; }
  Projection& Map(int place) { return maps_[place]; }
  ExpertMaps Experts(const ExpertRule& rule) const;

  // Returns maps that have only the weights applied after the mixer.
  BlockMaps AfterMixer() const;
  // The same maps for the rows [begin, begin + count). They differ only in the token indices that
  // seed an adapter's dropout.
  BlockMaps OfRows(int64_t begin, int64_t count) const;
  // Tensors returns all defined tensors in a fixed order. Of returns the same maps with these
  // tensors replaced by `tensors`, in that order.
  std::vector<at::Tensor> Tensors() const;
  BlockMaps Of(absl::Span<const at::Tensor> tensors) const;

 private:
  template <class Maps, class F>
  static void ForEachTensor(Maps& maps, const F& fn);

  std::vector<Projection> maps_;
};

// The dtype in which the block uses a weight: fp32 (fp64 if matmul_dtype is fp64) for norms and for
// parameters that are not matrices, otherwise matmul_dtype.
at::ScalarType WeightDtype(int place, at::ScalarType matmul_dtype);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_BLOCK_MAPS_H_
