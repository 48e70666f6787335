#ifndef MOONRING_ATTENTION_KERNELS_LOOPED_VARLEN_ATTENTION_H_
#define MOONRING_ATTENTION_KERNELS_LOOPED_VARLEN_ATTENTION_H_

// VarlenAttention that calls a BlockAttention for one tile after another: a reference for other
// implementations, and for tests without a GPU.
//
// Results are as exact as those of the BlockAttention. Slow: one kernel call per tile. Memory
// beyond the results: that of one tile.

#include <memory>
#include <utility>

#include "attention/kernels/block_attention.h"
#include "attention/kernels/varlen_attention.h"

namespace moonring::attention {

class LoopedVarlenAttention final : public VarlenAttention {
 public:
  explicit LoopedVarlenAttention(std::shared_ptr<const BlockAttention> block)
      : block_(std::move(block)) {}

  absl::string_view name() const override { return "looped"; }

 private:
  PartialAttention RunForward(const VarlenTiles& tiles) const override;
  TileGradients RunBackward(const VarlenTiles& tiles, const at::Tensor& dout_MHD,
                            const at::Tensor& out_MHD, const at::Tensor& lse_MH) const override;

  std::shared_ptr<const BlockAttention> block_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_LOOPED_VARLEN_ATTENTION_H_
